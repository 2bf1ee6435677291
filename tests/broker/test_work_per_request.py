"""No request keeps the loop to itself: the largest of every API are served in slices, in order, within bounds.

The frames are those of `inflated`: every array of every request, filled with as much as goes in.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.control.controller import Controller
from kavka.broker.environment import OsEnvironment
from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.errors import ErrorCode
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.frame import decode_response, encode_request
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)
from support.frames import connected, framed, read_response
from support.inflated import inflated
from support.one_broker import Run, Served
from support.waiting import until

FRAME_BYTES = 1_000_000
MAX_S = 0.1
"""Maximum seconds of the loop thread's processor time in one callback."""
_TRIES = 3
"""Times that a request is measured when a callback took longer: what else the machine does slows the processor down,
but not each time.
"""


class Callbacks:
    """The longest callback of the loop, in processor time."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.of = ""


@contextmanager
def watched_callbacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callbacks]:
    """Measure every callback of the loop."""
    callbacks = Callbacks()
    run = asyncio.events.Handle._run
    # As `kavka server-start` does: a collection looks at what requests make, and not at the heap of this process.
    gc.collect()
    gc.freeze()

    def timed(handle: Any) -> None:
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > callbacks.longest_s:
            callbacks.longest_s, callbacks.of = took, repr(handle)

    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)
    yield callbacks


async def exchange(port: int, frame: bytes) -> int | None:
    """Send a frame; return the length of the response, None when the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(frame)
        head = await reader.readexactly(4)
        (size,) = struct.unpack(">i", head)
        left: int = size
        while left:
            left -= len(await reader.read(min(left, 1 << 16)))
        return int(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    finally:
        writer.close()


@contextmanager
def broker_of_its_own(directory: Path) -> Iterator[int]:
    """Run a broker in another thread, where the client costs its loop nothing; give its port."""
    ports: list[int] = []
    ready, over = threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
        }
        broker = Broker(settings, OsEnvironment())
        endpoints = await broker.start()
        ports.append(endpoints[0].port)
        over.append((asyncio.get_running_loop(), stop))
        ready.set()
        await stop.wait()
        await broker.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield ports[0]
    finally:
        loop, stop = over[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("key", SUPPORTED_APIS, ids=lambda key: key.name)
def test_the_largest_requests_of_an_api_delay_no_client(
    key: ApiKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is answered, or refused by closing its connection, and what the loop does in one callback is bounded."""
    api = APIS[key]
    caplog.set_level(logging.CRITICAL)
    frames = list(inflated(api.request(), api.max_version, FRAME_BYTES))
    with broker_of_its_own(tmp_path / "data") as port:
        prepared = [
            encode_request(FindCoordinatorRequest(coordinator_keys=["g"], key_type=kind), 4, 1, "c")
            for kind in (0, 1)
        ]
        topic = CreateTopicsRequest(topics=[_topic("t", 2)], timeout_ms=30_000)
        prepared.append(encode_request(topic, 7, 1, "c"))

        async def prepare() -> None:
            for parts in prepared:
                assert await exchange(port, b"".join(map(bytes, parts)))  # type: ignore[arg-type]

        asyncio.run(prepare())
        for one in frames:
            for _ in range(_TRIES):
                with watched_callbacks(monkeypatch) as callbacks:
                    asyncio.run(exchange(port, one.frame))
                monkeypatch.undo()
                if callbacks.longest_s < MAX_S:
                    break
            else:
                pytest.fail(f"{one.title}: {callbacks.longest_s:.3f} s in {callbacks.of}")


def _topic(name: str, partitions: int) -> Any:
    from kavka.wire.messages.create_topics import CreateTopicsRequestTopic

    return CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)


# -- slices and order


def test_errors_of_a_large_response_are_counted(run: Run) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(20_000)]
        await served.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
        errors = served.broker.dispatcher.traffic()[ApiKey.METADATA].errors
        assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 20_000}

    run(story)


def test_others_are_served_while_a_large_request_is(run: Run) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(50_000)]
        reader, writer = await connected(served)
        writer.write(framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9))
        other_reader, other_writer = await connected(served)
        many = asyncio.ensure_future(read_response(reader))
        between = 0
        while not many.done():
            other_writer.write(framed(ApiVersionsRequest(), 0))
            await read_response(other_reader)
            between += 1
        assert between > 5
        assert len(await many) > 50_000 * 8
        writer.close()
        other_writer.close()

    run(story)


def test_requests_behind_a_large_one_are_served_after_it(run: Run) -> None:
    """Of two commits on one connection the later one counts, though the first takes many callbacks of the loop."""

    async def story(served: Served) -> None:
        await served.create("t", 1)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        reader, writer = await connected(served)
        where = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        nowhere = [OffsetCommitRequestPartition(partition_index=n) for n in range(1, 20_000)]
        first = [OffsetCommitRequestTopic(name="t", partitions=[*nowhere, *where])]
        where = [OffsetCommitRequestPartition(partition_index=0, committed_offset=2)]
        then = [OffsetCommitRequestTopic(name="t", partitions=where)]
        writer.write(framed(OffsetCommitRequest(group_id="g", topics=first), 7, 1))
        writer.write(framed(OffsetCommitRequest(group_id="g", topics=then), 7, 2))
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        writer.write(framed(OffsetFetchRequest(group_id="g", topics=asked), 5, 3))
        frames = [await read_response(reader) for _ in range(3)]
        assert [int.from_bytes(frame[:4]) for frame in frames] == [1, 2, 3]
        _id, last = decode_response(OffsetFetchResponse, 5, frames[2])
        assert last.topics[0].partitions[0].committed_offset == 2
        writer.close()

    run(story)


def test_a_connection_that_is_closed_behind_a_large_request_is_forgotten(run: Run) -> None:
    async def story(served: Served) -> None:
        dispatcher = served.broker.dispatcher
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(50_000)]
        _reader, writer = await connected(served)
        frame = framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
        writer.write(frame)
        await until(lambda: any(one.is_blocked for one in dispatcher.connections))
        writer.write(frame)
        writer.transport.abort()
        await until(lambda: len(dispatcher.connections) == 1 and not dispatcher._memory.in_use)
        await served.send(ApiVersionsRequest(), 0)

    run(story)


def test_memory_of_large_requests_is_given_back(run: Run) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(30_000)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        peaks = []
        for _ in range(3):
            sending = asyncio.ensure_future(served.send(request, 9))
            while not sending.done():
                peaks.append(served.broker.dispatcher._memory.in_use)
                await asyncio.sleep(0)
            assert served.broker.dispatcher._memory.in_use == 0
        assert max(peaks) > 1_000_000

    run(story)


# -- bounds


async def is_closed(served: Served, frame: bytes) -> bool:
    return await exchange(served.port, frame) is None


@pytest.mark.slow
def test_a_request_that_says_nothing_at_length_is_refused(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten million empty names took 17 s and 646 MB."""

    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name="")] * 5_000_000
        assert await is_closed(served, framed(MetadataRequest(topics=topics), 9))

    run(story)
    assert "a METADATA of 10000" in caplog.text
    assert "kavka.request.decoded.max.bytes" in caplog.text


def test_the_memory_of_one_request_is_a_setting(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(20_000)]
        assert await is_closed(served, framed(MetadataRequest(topics=topics), 9))

    run(story, kavka__request__decoded__max__bytes="1048576")
    assert "more than 1048576 bytes of memory" in caplog.text


def test_an_order_of_the_controller_may_take_four_times_the_memory(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """It may name every partition of a cluster. A lone broker refuses it, but by a response."""

    def update_metadata(partitions: int) -> UpdateMetadataRequest:
        rows = [
            UpdateMetadataRequestPartition(partition_index=n, replicas=[1, 2, 3], isr=[1, 2, 3])
            for n in range(partitions)
        ]
        topics = [UpdateMetadataRequestTopic(topic_name="t", partition_states=rows)]
        return UpdateMetadataRequest(topic_states=topics)

    async def story(served: Served) -> None:
        reply = await served.send(update_metadata(10_000), 7)
        assert reply.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "closed" not in caplog.text
        assert await is_closed(served, framed(update_metadata(40_000), 7))

    run(story, kavka__request__decoded__max__bytes=str(4 << 20))
    assert f"more than {16 << 20} bytes of memory" in caplog.text
    assert "raise kavka.request.decoded.max.bytes" in caplog.text


def test_a_fetch_of_too_many_partitions_is_refused(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """No setting changes the bound, so the warning says what to do."""

    async def story(served: Served) -> None:
        rows = [FetchRequestPartition(partition=n) for n in range(100_000)]
        request = FetchRequest(topics=[FetchRequestTopic(topic="t", partitions=rows)])
        assert await is_closed(served, framed(request, 11))

    run(story)
    assert f"takes more than {24 << 20} bytes of memory" in caplog.text
    assert caplog.text.rstrip().endswith("send fewer partitions in a request")


def test_a_produce_of_too_many_partitions_is_refused(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        rows = [ProduceRequestPartition(index=n, records=b"none") for n in range(20_000)]
        topics = [ProduceRequestTopic(name="t", partition_data=rows)]
        assert await is_closed(served, framed(ProduceRequest(acks=1, topic_data=topics), 9))

    run(story)
    assert f"takes more than {4 << 20} bytes of memory" in caplog.text
    assert caplog.text.rstrip().endswith("send fewer partitions in a request")


def test_the_bound_of_a_request_that_is_large_for_its_frame_names_no_setting(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name="")] * 1_000_000
        assert await is_closed(served, framed(MetadataRequest(topics=topics), 9))

    run(story)
    assert "no request of an ordinary client takes so much for its size" in caplog.text
    assert "kavka.request.decoded.max.bytes" not in caplog.text


def test_a_response_is_bounded(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"{n:0200}") for n in range(6_000)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        assert await is_closed(served, framed(request, 9))

    run(story, kavka__response__max__bytes="1048576")
    assert "the response to a METADATA is larger than 1048576 bytes" in caplog.text
    assert "kavka.response.max.bytes" in caplog.text


def test_what_is_named_repeatedly_is_answered_repeatedly_within_a_bound(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Two thousand times the same broker were 10 kB that took 7.6 s; Apache Kafka answers each."""

    async def story(served: Served) -> None:
        def asked(count: int) -> DescribeConfigsRequest:
            one = DescribeConfigsRequestResource(
                resource_type=4, resource_name=str(served.broker.broker_id)
            )
            return DescribeConfigsRequest(resources=[one] * count)

        described = await served.send(asked(5), 4)
        assert len({len(result.configs) for result in described.results}) == 1
        assert len(described.results) == 5
        assert await is_closed(served, framed(asked(2000), 4))
        group = OffsetFetchRequestGroup(group_id="g", topics=None)
        many = await served.send(OffsetFetchRequest(groups=[group] * 2000), 8)
        assert len(many.groups) == 2000

    run(story)
    assert "what a DESCRIBE_CONFIGS names repeatedly would be answered in more than" in caplog.text


def test_a_join_names_a_thousand_protocols_at_most(run: Run) -> None:
    async def story(served: Served) -> None:
        protocols = [JoinGroupRequestProtocol(name=f"p{n}") for n in range(1001)]
        request = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=protocols)
        assert await is_closed(served, framed(request, 4))

    run(story)


def test_a_request_creates_ten_thousand_partitions_at_most(run: Run) -> None:
    async def story(served: Served) -> None:
        topics = [_topic(f"t{n}", 100) for n in range(101)]
        responses = (await served.send(CreateTopicsRequest(topics=topics, timeout_ms=1000))).topics
        assert {row.error_code for row in responses} == {ErrorCode.POLICY_VIOLATION}
        message = "Excessively large number of partitions per request: 10100."
        assert {row.error_message for row in responses} == {message}

    run(story)


def test_a_list_of_many_brokers_to_move_to_is_refused_at_once(run: Run) -> None:
    """It was searched once for each of its elements: 160,000 froze the broker permanently."""

    async def story(served: Served) -> None:
        await served.create("t", 1)
        row = AlterPartitionReassignmentsRequestPartition(
            partition_index=0, replicas=list(range(160_000))
        )
        topic = AlterPartitionReassignmentsRequestTopic(name="t", partitions=[row])
        request = AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic])
        reply = await served.send(request)
        (answered,) = reply.responses[0].partitions
        assert answered.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    run(story)


def test_reassignments_are_decided_in_parts_of_partitions_and_replicas(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """250,000 replicas were judged in one go, for 72 ms; each partition is answered, in the order of the request."""

    async def story(served: Served) -> None:
        await served.create("t", 1)
        submit = Controller.submit_and_wait

        def noted(controller: Controller, event: Any) -> Any:
            sizes.append(sum(1 + len(one or ()) for one in event(0).targets.values()))
            return submit(controller, event)

        monkeypatch.setattr(Controller, "submit_and_wait", noted)
        wanted = [32_768, 1_500, 1_000, 32_767, 1, 0, 32_768]
        rows = [
            AlterPartitionReassignmentsRequestPartition(
                partition_index=n, replicas=list(range(1, count + 1))
            )
            for n, count in enumerate(wanted)
        ]
        topic = AlterPartitionReassignmentsRequestTopic(name="t", partitions=rows)
        request = AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic])
        reply = await served.send(request)
        answered = reply.responses[0].partitions
        assert [one.partition_index for one in answered] == list(range(len(wanted)))
        assert {one.error_code for one in answered} == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        assert answered[0].error_message == (
            "32768 replicas are more than a partition can have: 32767."
        )
        assert sizes == [32_769, 1_501 + 1_001, 32_768, 2 + 1 + 32_769]

    sizes: list[int] = []
    run(story)


def test_a_setting_with_thousands_of_items_is_changed_in_linear_time(run: Run) -> None:
    async def story(served: Served) -> None:
        items = ",".join(str(n) for n in range(6000))
        config = IncrementalAlterConfigsRequestConfig(
            name="follower.replication.throttled.replicas", config_operation=2, value=items
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name="t", configs=[config]
        )
        await served.create("t", 1)
        for _ in range(2):
            reply = await served.send(IncrementalAlterConfigsRequest(resources=[resource]))
            assert reply.responses[0].error_code == ErrorCode.INVALID_CONFIG  # no pairs

    run(story)


# -- many at a time


def test_a_commit_of_many_offsets_is_stored_in_batches(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1200)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        rows = [OffsetCommitRequestPartition(partition_index=n) for n in range(1200)]
        for row in rows:
            row.committed_offset = row.partition_index
        topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
        reply: OffsetCommitResponse = await served.send(
            OffsetCommitRequest(group_id="g", topics=topics), 7
        )
        answered = reply.topics[0].partitions
        assert [(row.partition_index, row.error_code) for row in answered] == [
            (n, 0) for n in range(1200)
        ]
        topic_partition = served.broker.groups.partition_of("g")
        assert topic_partition is not None
        assert len(served.broker.replica_manager.find(topic_partition).log.segments) == 1
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(1200)))]
        found = await served.send(OffsetFetchRequest(group_id="g", topics=asked), 7)
        offsets = {row.partition_index: row.committed_offset for row in found.topics[0].partitions}
        assert offsets == {n: n for n in range(1200)}

    run(story)


def test_of_an_offset_that_is_committed_twice_in_a_request_the_last_counts(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        rows = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in ((0, 5), (0, 7), (9, 1), (9, 1))
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=rows)] * 2
        reply = await served.send(OffsetCommitRequest(group_id="g", topics=topics), 7)
        (topic,) = reply.topics
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answered = [(row.partition_index, row.error_code) for row in topic.partitions]
        assert answered == [(0, 0), *[(9, unknown)] * 4]
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 0])]
        found = await served.send(OffsetFetchRequest(group_id="g", topics=asked), 7)
        (row,) = found.topics[0].partitions
        assert row.committed_offset == 7

    run(story)


def test_a_fetch_of_thousands_of_partitions_reads_and_waits_as_a_small_one(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 2500)
        rows = [FetchRequestPartition(partition=n, partition_max_bytes=1000) for n in range(2500)]

        def asked(max_wait_ms: int) -> FetchRequest:
            topic = FetchRequestTopic(topic="t", partitions=rows)
            return FetchRequest(
                max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic]
            )

        empty = await served.send(asked(0), 11)
        assert len(empty.responses[0].partitions) == 2500
        other = await served.another()
        waiting = asyncio.ensure_future(other.send(asked(60_000), 11))
        await served.until_a_fetch_waits()
        await served.produce("t", b"x", partition=2499)
        found = await waiting
        with_records = [p.partition_index for p in found.responses[0].partitions if p.records]
        assert with_records == [2499]

    run(story)
