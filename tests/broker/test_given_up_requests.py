"""Clients that pipeline, hold long polls, leave responses unread, and go away in the middle of anything.

Each test aborts connections at many points of the way of their requests: the broker runs in the test's loop, so a
number of iterations after the last byte was written is a stage. Afterwards everything that requests hold is given back:
memory, frames, pinned files, waiting lists, tasks.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.compression import Compression
from support.cold_files import patch_cached
from support.frames import framed
from support.one_broker import Run, Served
from support.waiting import until

WITHOUT_END_MS = 2**31 - 1
SETTINGS = {"log__cleaner__enable": "false"}
"""The cleaner begins a second after the start, with a task of its own."""
STAGES = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
"""Iterations of the loop after which a client goes away."""


def long_poll(rows: int = 1) -> bytes:
    """Ask for records of a topic that gets none."""
    return fetch(rows, topic="quiet", wait_ms=WITHOUT_END_MS)


def fetch(rows: int = 1, *, topic: str = "t", wait_ms: int = 0) -> bytes:
    row = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchRequestTopic(topic=topic, partitions=[row] * rows)]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
    return framed(request, 11)


def fetch_of_many(rows: int) -> bytes:
    """Ask for many partitions, nearly all of which do not exist: a large response with an error in each row."""
    asked = [FetchRequestPartition(partition=n, partition_max_bytes=1000) for n in range(rows)]
    topics = [FetchRequestTopic(topic="t", partitions=asked)]
    return framed(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), 11)


def produce(records: bytes | bytearray, acks: int) -> bytes:
    row = ProduceRequestPartition(index=0, records=records)
    topics = [ProduceRequestTopic(name="t", partition_data=[row])]
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), 9)


def small_batch() -> bytes:
    builder = BatchBuilder()
    builder.append(None, b"record", 1_700_000_000_000)
    return bytes(builder.build())


def inflated_batch() -> bytes:
    """Return a batch whose check leaves the loop's thread."""
    builder = BatchBuilder()
    for _ in range(100):
        builder.append(None, bytes(50_000), 1_700_000_000_000)
    return bytes(builder.build(Compression.ZSTD))


def metadata(topics: int) -> bytes:
    wanted = [MetadataRequestTopic(name=f"topic-{number:06}") for number in range(topics)]
    return framed(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9)


def list_offsets(rows: int) -> bytes:
    asked = [ListOffsetsRequestPartition(partition_index=n, timestamp=-1) for n in range(rows)]
    topics = [ListOffsetsRequestTopic(name="t", partitions=asked)]
    return framed(ListOffsetsRequest(topics=topics), 5)


def offset_fetch(rows: int) -> bytes:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(rows)))]
    return framed(OffsetFetchRequest(group_id="g", topics=topics), 5)


def describe_configs() -> bytes:
    resources = [DescribeConfigsRequestResource(resource_type=4, resource_name="0")] * 50
    return framed(DescribeConfigsRequest(resources=resources), 4)


def pipelined() -> bytes:
    """Return requests of every kind of result, in one write: encoded, message, second stage, deferred, none."""
    batch = small_batch()
    return b"".join(
        (
            produce(batch, 1),
            produce(batch, 0),
            metadata(1),
            fetch(),
            list_offsets(1),
            describe_configs(),
            produce(batch, -1),
            long_poll(),
        )
    )


REQUESTS: dict[str, Callable[[], bytes]] = {
    "pipelined": lambda: pipelined() * 20,
    "long polls": lambda: long_poll() * 20,
    "large long polls": lambda: long_poll(3_000) * 5,
    "large fetches": lambda: fetch(3_000) * 3,
    "large responses to fetches": lambda: fetch_of_many(20_000),
    "large metadata": lambda: metadata(20_000) + metadata(1) * 5,
    "half a large request": lambda: metadata(20_000)[:-1],
    "large requests in a row": lambda: (list_offsets(20_000) + offset_fetch(20_000)) * 2,
    "inflated batches": lambda: produce(inflated_batch(), 1) * 3,
    "inflated batches without response": lambda: produce(inflated_batch(), 0) * 3,
}

SLOW = {"large responses to fetches", "large metadata", "large requests in a row"}
"""Requests of which a broker answers thousands of rows at each stage; the others take the same ways."""
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in REQUESTS]


class Held:
    """The resources that the requests of a broker hold."""

    def __init__(self, served: Served) -> None:
        """Note what there is before the test's clients come."""
        self._broker = served.broker
        self._tasks = asyncio.all_tasks()
        self._connections = set(served.broker.dispatcher.connections)

    def __call__(self) -> dict[str, Any]:
        """Return all that is not given back yet, by name."""
        broker, dispatcher = self._broker, self._broker.dispatcher
        files = [s.data for log in broker.replica_manager.store for s in log.segments]
        held = {
            "memory": dispatcher._memory.in_use,
            "requests that wait for memory": len(dispatcher._memory._waiting),
            "frames": broker.request_budget.held_bytes,
            "queued": broker.request_budget.queued,
            "pins": sum(file.pins for file in files),
            "fetches": len(broker.fetch_purgatory),
            "produces": len(broker.produce_purgatory),
            "second stages": len(dispatcher.in_second_stage()),
            "woken": len(dispatcher._responses.pending._woken),
            "connections": len(dispatcher.connections.keys() - self._connections),
            "waiting": sum(len(state.waiting) for state in dispatcher.connections.values()),
            "blocked": sum(one.is_blocked for one in dispatcher.connections),
            "tasks": sorted(map(repr, asyncio.all_tasks() - self._tasks)),
        }
        return {name: count for name, count in held.items() if count}


async def until_given_back(held: Held) -> None:
    """Wait until clients that are gone hold nothing; raise AssertionError that says what they hold still."""
    try:
        await until(lambda: not held(), timeout_s=20)
    except TimeoutError:
        raise AssertionError(held()) from None


async def prepared(served: Served) -> Held:
    """Create the topic, and use what is made at its first use."""
    await served.topic("t")
    await served.topic("quiet")
    await served.produce("t", b"first")
    await served.fetch("t")
    (await served.another()).peer.close()
    held = Held(served)
    held._connections = {served_connection(served)}
    return held


def served_connection(served: Served) -> Any:
    """Return the connection of the test's own client, the oldest one."""
    return next(iter(served.broker.dispatcher.connections))


async def connect(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", served.port)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_goes_away_leaves_nothing_behind(run: Run, name: str) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        data = REQUESTS[name]()
        for iterations in STAGES:
            _reader, writer = await connect(served)
            writer.write(data)
            for _ in range(iterations):
                await asyncio.sleep(0)
            writer.transport.abort()
        await until_given_back(held)
        await served.produce("t", b"goes on")

    run(story, **SETTINGS)


@pytest.mark.parametrize("name", NAMES)
def test_a_connection_that_the_broker_closes_leaves_nothing_behind(run: Run, name: str) -> None:
    """At once, whatever its client does: the idle limit, say, or a request behind these that is malformed."""

    async def story(served: Served) -> None:
        held = await prepared(served)
        data = REQUESTS[name]()
        for iterations in STAGES:
            known = set(served.broker.dispatcher.connections)
            _reader, writer = await connect(served)
            writer.write(data)
            await until(lambda known=known: served.broker.dispatcher.connections.keys() - known)  # type: ignore[misc]
            for _ in range(iterations):
                await asyncio.sleep(0)
            for connection in served.broker.dispatcher.connections.keys() - known:
                connection.abort()
            writer.transport.abort()
        await until_given_back(held)

    run(story, **SETTINGS)


@pytest.mark.slow
def test_clients_that_read_nothing_and_go_away_leave_nothing_behind(run: Run) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        builder = BatchBuilder()
        builder.append(None, bytes(500_000), 1_700_000_000_000)
        await served.produce_bytes("t", builder.build())
        row = FetchRequestPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topics = [FetchRequestTopic(topic="t", partitions=[row])]
        whole = framed(FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=topics), 11)
        clients = []
        for data in (whole * 40, metadata(20_000) * 30, (whole * 4 + fetch_of_many(20_000)) * 8):
            _reader, writer = await connect(served)
            writer.write(data)
            clients.append(writer)
        dispatcher = served.broker.dispatcher
        await until(lambda: sum(one.bytes_unsent > 0 for one in dispatcher.connections) == 3)
        assert held()["frames"] > 0
        assert held()["pins"] > 0
        for writer in clients:
            writer.transport.abort()
        await until_given_back(held)

    run(story, **SETTINGS)


def test_clients_that_go_away_during_cold_reads_leave_nothing_behind(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        patch_cached(monkeypatch)
        for data in (fetch() * 10, fetch(3_000)):
            for iterations in STAGES:
                _reader, writer = await connect(served)
                writer.write(data)
                for _ in range(iterations):
                    await asyncio.sleep(0)
                writer.transport.abort()
        await until_given_back(held)

    run(story, **SETTINGS)


def test_large_requests_that_wait_for_memory_leave_nothing_behind(run: Run) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        memory = served.broker.dispatcher._memory
        await memory.take(memory._capacity)
        writers = []
        for data in (metadata(20_000), fetch_of_many(20_000), list_offsets(20_000)):
            _reader, writer = await connect(served)
            writer.write(data)
            writers.append(writer)
        await until(lambda: len(memory._waiting) == 3)
        for connection in list(served.broker.dispatcher.connections):
            if connection is not served_connection(served):
                connection.abort()  # blocked connections are not read: they do not see that their client is gone
        await until(lambda: not served.broker.dispatcher.in_second_stage())
        memory.give(memory._capacity)
        for writer in writers:
            writer.transport.abort()
        await until_given_back(held)

    run(story, **SETTINGS)


def test_clients_that_are_answered_leave_nothing_behind_either(run: Run) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        expected = {"large metadata": 6, "large requests in a row": 4, "inflated batches": 3}
        for name, count in expected.items():
            reader, writer = await connect(served)
            writer.write(REQUESTS[name]())
            for _ in range(count):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)
            writer.close()
        await until_given_back(held)

    run(story, **SETTINGS)


def test_a_broker_that_stops_gives_everything_back(run: Run) -> None:
    async def story(served: Served) -> None:
        held = await prepared(served)
        writers = []
        for make in REQUESTS.values():
            _reader, writer = await connect(served)
            writer.write(make())
            writers.append(writer)
        await until(lambda: len(served.broker.fetch_purgatory) > 20)
        await served.broker.dispatcher.stop()
        held._connections = set()
        await until_given_back(held)
        for writer in writers:
            writer.transport.abort()

    run(story, **SETTINGS)
