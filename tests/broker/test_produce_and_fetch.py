"""Records in, records out, and what is refused on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api import fetch
from kavka.broker.partitions.replica import ACKS_ALL, AppendOutcome
from kavka.broker.produce.produce_outcomes import PartitionOutcome, TopicOutcomes, waiting
from kavka.broker.requests.deferred import DeferredResponse
from kavka.broker.requests.failures import RequestFailures
from kavka.broker.requests.pending_requests import PendingRequests
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from support.one_broker import Run, Served
from support.produce import batch
from support.request_contexts import request_context


def test_records_come_back_with_the_offsets_they_got(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assert (await served.produce("t", b"a", b"b")).base_offset == 0
        assert (await served.produce("t", b"c")).base_offset == 2
        records = await served.read("t")
        assert [(r.offset, r.value) for r in records] == [(0, b"a"), (1, b"b"), (2, b"c")]

    run(story)


def test_records_survive_a_clean_restart(run: Run) -> None:
    async def before(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"kept", acks=-1)

    async def after(served: Served) -> None:
        assert [r.value for r in await served.read("t")] == [b"kept"]
        assert (await served.produce("t", b"more")).base_offset == 1

    run(before)
    run(after)


def test_every_codec_is_stored_as_it_came(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for codec in Compression:
            await served.produce("t", b"x" * 500, codec.name.encode(), compression=codec)
        values = [r.value for r in await served.read("t")]
        assert values[1::2] == [codec.name.encode() for codec in Compression]

    run(story)


def test_a_fetch_waits_for_bytes_and_wakes_when_they_come(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        waiting = asyncio.ensure_future(served.fetch("t", max_wait_ms=20_000))
        await served.until_a_fetch_waits()
        other = await served.another()
        await other.produce("t", b"late")
        found = await waiting
        assert found.high_watermark == 1
        assert found.records

    run(story)


def test_a_fetch_that_waits_is_answered_in_the_turn_after_the_append(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        broker = served.broker
        connection = next(iter(broker.dispatcher.connections))
        context = request_context(connection, ApiKey.FETCH, 11)
        asked = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchRequestTopic(topic="t", partitions=[asked])]
        deferred = broker.handler_parts.bind(fetch)(
            context, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
        )
        assert isinstance(deferred, DeferredResponse)
        responses: list[Any] = []
        waiting = PendingRequests(
            lambda _context, result: responses.append(result),
            RequestFailures(),
            responses.append,
            int,
        )
        waiting.defer(context, deferred)
        broker.replica_manager.find(TopicPartition("t", 0)).append_internal(batch(b"at once"))
        assert len(broker.fetch_purgatory) == 0
        assert responses == []  # the producer is answered first
        await asyncio.sleep(0)
        (response,) = responses
        if not isinstance(
            response, FetchResponse
        ):  # the file system does not report what is cached
            response = await response
        records = response.responses[0].partitions[0].records
        assert records.length > 0
        records.release()

    run(story)


def test_a_fetch_that_fails_when_it_is_woken_loses_its_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        waiting = asyncio.ensure_future(other.fetch("t", max_wait_ms=2**31 - 1))
        await served.until_a_fetch_waits()
        replica = served.broker.replica_manager.find(TopicPartition("t", 0))
        end, replica.partition.high_watermark = replica.partition.high_watermark, None
        served.broker.fetch_purgatory.release(replica.topic_partition)
        with pytest.raises(ConnectionError):
            await waiting
        replica.partition.high_watermark = end

    run(story)


def test_a_fetch_answers_without_records_when_its_time_is_over(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        found = await served.fetch("t", max_wait_ms=20)
        assert (found.error_code, found.high_watermark, len(found.records)) == (0, 0, 0)

    run(story)


def test_a_part_of_a_batch_is_not_all_that_a_partition_gets(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for partition in (0, 1):
            await served.produce("t", b"x" * 100, partition=partition)
        asked = [
            FetchRequestPartition(partition=p, fetch_offset=0, partition_max_bytes=150)
            for p in (0, 1)
        ]
        request = FetchRequest(topics=[FetchRequestTopic(topic="t", partitions=asked)])
        response = await served.send(request, 12)
        first, second = response.responses[0].partitions
        assert len(first.records) > 150
        assert (second.error_code, second.high_watermark, len(second.records)) == (0, 1, 0)

    run(story, num__partitions="2")


def test_a_fetch_ends_with_its_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        waiting = asyncio.ensure_future(other.fetch("t", max_wait_ms=2**31 - 1))
        await served.until_a_fetch_waits()
        other.peer.close()
        with pytest.raises(ConnectionError):
            await waiting
        for _ in range(100_000):
            if not len(served.broker.fetch_purgatory):
                break
            await asyncio.sleep(0)
        assert len(served.broker.fetch_purgatory) == 0
        assert (await served.produce("t", b"a")).error_code == 0

    run(story)


def test_a_fetch_waits_until_there_are_enough_bytes(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 100)
        waiting = asyncio.ensure_future(served.fetch("t", max_wait_ms=20_000, min_bytes=1000))
        await served.until_a_fetch_waits()
        other = await served.another()
        await other.produce("t", b"x" * 100)
        assert len(served.broker.fetch_purgatory) == 1
        await other.produce("t", b"x" * 900)
        assert len((await waiting).records) > 1000

    run(story)


def test_fetch_from_an_older_segment_does_not_wait_for_more_bytes_than_it_has(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", segment__bytes="200")
        for number in range(3):
            await served.produce("t", b"%d" % number * 100)
        async with asyncio.timeout(10):
            found = await served.fetch("t", max_wait_ms=60_000, min_bytes=300)
        assert len(bytes(found.records)) < 300

    run(story)


def test_fetch_wants_no_more_bytes_than_it_takes(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for number in range(3):
            await served.produce("t", b"%d" % number * 100)
        asked = FetchRequestPartition(partition_max_bytes=1 << 20)
        topic = FetchRequestTopic(topic="t", partitions=[asked])
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1000, max_bytes=300, topics=[topic])
        async with asyncio.timeout(10):
            response = await served.send(request, 11)
        assert len(bytes(response.responses[0].partitions[0].records)) == 300

    run(story)


def test_the_first_batch_is_whole_however_small_the_limit(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 5000)
        found = await served.fetch("t", max_bytes=10)
        assert len(found.records) > 5000

    run(story)


def test_offsets_out_of_range_are_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        for offset in (-1, 2, 1 << 62):
            found = await served.fetch("t", offset)
            assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, offset
        assert (await served.fetch("t", 1)).error_code == ErrorCode.NONE

    run(story)


def test_unknown_partitions_are_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await served.produce("t", b"a", partition=7)).error_code == unknown
        assert (await served.produce("nonexistent", b"a")).error_code == unknown
        assert (await served.fetch("nonexistent")).error_code == unknown

    run(story)


def test_a_damaged_batch_is_refused_and_leaves_nothing(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        damaged = batch(b"value")
        damaged[-1] ^= 1
        response = await served.produce_bytes("t", damaged)
        assert response.error_code == ErrorCode.CORRUPT_MESSAGE
        assert await served.read("t") == []

    run(story)


def test_a_batch_above_the_limit_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        response = await served.produce("t", b"x" * 2000)
        assert response.error_code == ErrorCode.MESSAGE_TOO_LARGE

    run(story, message__max__bytes="1000")


def test_clients_may_not_write_markers_or_internal_topics(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.topic("__consumer_offsets")
        marker = encode_end_marker(EndMarker(ControlType.COMMIT, 0), 1, 0, 0)
        assert (await served.produce_bytes("t", marker)).error_code == ErrorCode.INVALID_RECORD
        response = await served.produce("__consumer_offsets", b"x")
        assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(story)


def test_acks_other_than_kafkas_are_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        response = await served.produce("t", b"a", acks=2)
        assert response.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    run(story)


def test_duplicates_are_answered_and_gaps_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        producer = (await served.send(InitProducerIdRequest())).producer_id
        ids = {"producer_id": producer, "producer_epoch": 0}
        first = await served.produce("t", b"a", b"b", base_sequence=0, **ids)
        again = await served.produce("t", b"a", b"b", base_sequence=0, **ids)
        assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
        gap = await served.produce("t", b"d", base_sequence=5, **ids)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await served.produce("t", b"c", base_sequence=2, **ids)).base_offset == 2

    run(story)


def test_what_came_before_a_snapshots_batch_is_a_duplicate_of_unknown_offset(run: Run) -> None:
    ids: dict[str, int] = {"producer_epoch": 0}

    async def before(served: Served) -> None:
        await served.topic("t")
        ids["producer_id"] = (await served.send(InitProducerIdRequest())).producer_id
        for number in range(3):
            await served.produce("t", b"a", base_sequence=number, **ids)

    async def after(served: Served) -> None:
        for acks in (1, -1):
            again = await served.produce("t", b"a", base_sequence=1, acks=acks, **ids)
            expected = (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
            assert (again.error_code, again.base_offset) == expected
        assert (await served.produce("t", b"b", base_sequence=3, **ids)).base_offset == 3

    run(before)
    run(after)


def test_an_unknown_duplicate_waits_for_the_replicas() -> None:
    replica: Any = SimpleNamespace(partition=SimpleNamespace(high_watermark=1))
    outcome = AppendOutcome(ErrorCode.NONE, end_offset=2)
    topics = [TopicOutcomes("t", [PartitionOutcome(0, replica, outcome)])]
    assert waiting(ACKS_ALL, topics) == [(replica, outcome)]
    assert waiting(1, topics) == []


def test_producers_are_remembered_across_a_restart(run: Run) -> None:
    ids: dict[str, int] = {"producer_epoch": 0}

    async def before(served: Served) -> None:
        await served.topic("t")
        ids["producer_id"] = (await served.send(InitProducerIdRequest())).producer_id
        await served.produce("t", b"a", base_sequence=0, **ids)

    async def after(served: Served) -> None:
        assert (await served.send(InitProducerIdRequest())).producer_id > ids["producer_id"]
        again = await served.produce("t", b"a", base_sequence=0, **ids)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert (await served.produce("t", b"b", base_sequence=1, **ids)).base_offset == 1

    run(before)
    run(after)


def test_log_append_time_stamps_the_batch(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        response = await served.produce("t", b"a")
        (record,) = await served.read("t")
        assert response.log_append_time_ms == record.timestamp > 1_700_000_000_000
        assert record.timestamp_type == 1

    run(story, log__message__timestamp__type="LogAppendTime")


def test_a_topics_own_codec_replaces_the_producers(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 1000, compression=Compression.GZIP)
        found = await served.fetch("t")
        assert found.records[22] & 7 == Compression.ZSTD
        assert [r.value for r in await served.read("t")] == [b"x" * 1000]

    run(story, compression__type="zstd")


def test_an_old_fetch_gets_zstd_batches_of_a_topic_that_keeps_the_producers_codec(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 1000, compression=Compression.ZSTD)
        found = await served.fetch("t", version=9)
        assert found.error_code == ErrorCode.NONE
        assert found.records[22] & 7 == Compression.ZSTD

    run(story)


def test_an_old_fetch_is_refused_where_the_topics_codec_is_zstd(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", compression__type="zstd")
        refused = await served.fetch("t", version=9)  # whatever is in the log, be it nothing
        assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await served.fetch("t", version=10)).error_code == ErrorCode.NONE

    run(story)


def test_a_session_returns_only_changes(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        asked = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchRequestTopic(topic="t", partitions=[asked])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[topic])
        first = await served.send(request, 11)
        assert first.session_id > 0
        following = FetchRequest(
            max_wait_ms=0, min_bytes=1, session_id=first.session_id, session_epoch=1
        )
        assert (await served.send(following, 11)).responses == []
        await served.produce("t", b"a")
        following.session_epoch = 2
        response = await served.send(following, 11)
        assert len(response.responses[0].partitions[0].records) > 0
        following.session_epoch = 2
        refused = await served.send(following, 11)
        assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    run(story)


def test_fetch_by_topic_id(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        asked = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic_id = served.broker.metadata.topics["t"].topic_id
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchRequestTopic(topic_id=topic_id, partitions=[asked]),
                FetchRequestTopic(topic_id=bytes(15) + b"\x01", partitions=[asked]),
            ],
        )
        known, unknown = (await served.send(request, 13)).responses
        assert len(known.partitions[0].records) > 0
        assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(story)


def test_a_transactional_batch_without_a_transaction_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        refused = await served.produce(
            "t", b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        found = await served.fetch("t")
        assert (found.high_watermark, found.last_stable_offset) == (0, 0)

    run(story)


def test_damage_on_the_disk_is_an_error_of_its_partition(run: Run, tmp_path: Path) -> None:
    async def before(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a" * 200)
        await served.produce("t", b"b" * 20_000)
        await served.produce("t", b"c")

    async def after(served: Served) -> None:
        log = tmp_path / "data" / "t-0" / f"{0:020d}.log"
        with log.open("r+b") as file:
            file.seek(8)
            file.write(b"\xff\xff")
        assert (await served.fetch("t")).error_code == ErrorCode.CORRUPT_MESSAGE

    run(before)
    run(after)


def test_damaged_records_are_an_error_of_a_search_by_time(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        with (tmp_path / "data" / "t-0" / f"{0:020d}.log").open("r+b") as file:
            file.seek(61)
            file.write(b"\xff\xff")
        asked = ListOffsetsRequestPartition(partition_index=0, timestamp=0)
        topic = ListOffsetsRequestTopic(name="t", partitions=[asked])
        response = await served.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE

    run(story)


def test_a_transaction_that_has_ended_blocks_no_reader(run: Run) -> None:
    def records(served: Served) -> Any:
        return served.broker.replica_manager.find(TopicPartition("t", 0))

    async def before(served: Served) -> None:
        await served.topic("t")
        facts = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
        records(served).append_internal(batch(b"a", timestamp_ms=0, transactional=True, **facts))  # type: ignore[arg-type]
        assert (await served.fetch("t")).last_stable_offset == 0

    async def after(served: Served) -> None:
        assert (await served.fetch("t")).last_stable_offset == 0
        marker = encode_end_marker(EndMarker(ControlType.COMMIT, 0), 1, 0, 0)
        records(served).append_internal(marker)
        assert (await served.fetch("t")).last_stable_offset == 2

    run(before)
    run(after)
