"""Produce requests that take more than a moment: checked in the pool and appended in slices, in order all the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kavka.broker.produce import request_appender
from kavka.broker.requests import dispatcher
from kavka.broker.requests.large_requests import LargeRequest
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.crc32c import crc32c
from kavka.wire.frame import decode_response
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.delete_topics import DeleteTopicsRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponse,
)
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.body import seal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import CRC_START, HEADER_SIZE
from support.frames import framed
from support.one_broker import Run, Served
from support.produce import produce_request
from support.transactional_producer import SETTINGS, Producer
from support.waiting import until

WHERE = TopicPartition("t", 0)
NOW = 1_700_000_000_000
LARGE = 100
CODECS = list(Compression)[1:]


def large(codec: Compression = Compression.ZSTD, **options: Any) -> bytearray:
    """Return a batch of 100 records that is small, and decompresses to 5 MB."""
    builder = BatchBuilder()
    for _ in range(LARGE):
        builder.append(None, bytes(50_000), NOW)
    return builder.build(codec, **options)


def test_a_request_that_is_large_by_its_records_is_decoded_without_slices(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliced: list[str] = []

    class Noted(LargeRequest):
        def __init__(self, api: str, *rest: Any) -> None:
            sliced.append(api)
            super().__init__(api, *rest)

    monkeypatch.setattr(dispatcher, "LargeRequest", Noted)

    async def story(served: Served) -> None:
        await served.topic("t")
        assert (await served.produce("t", bytes(100_000))).error_code == 0
        assert not sliced
        request = request_of([])
        request.topic_data[0].partition_data += [
            ProduceRequestPartition(index=index, records=b"none") for index in range(1, 12_000)
        ]
        await served.send(request)
        assert sliced == ["PRODUCE"]

    run(story)


def test_the_five_requests_that_a_producer_has_in_flight_come_with_one_read(run: Run) -> None:
    async def story(served: Served) -> None:
        (connection,) = served.broker.dispatcher.connections
        assert len(connection.get_buffer(-1)) >= 5 * (6 * 16_384 + 1024)

    run(story)


async def until_a_check_waits(served: Served) -> None:
    """Give way until the connection of `served` is blocked by a request."""
    await until(lambda: any(one.requests_in_flight for one in served.broker.dispatcher.connections))
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("codec", CODECS)
def test_others_append_while_a_large_batch_is_checked(run: Run, codec: Compression) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        async with served.broker.lazy.batch_checks.get().lock:
            sent = asyncio.ensure_future(served.produce_bytes("t", large(codec)))
            await until_a_check_waits(served)
            first = await other.produce("t", b"small")
            assert not sent.done()
        response = await sent
        assert (first.base_offset, response.error_code, response.base_offset) == (0, 0, 1)
        found = await served.fetch("t", 1)
        assert found.high_watermark == 1 + LARGE

    run(story)


def test_requests_of_a_connection_stay_in_order_behind_a_large_one(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        ids = {
            "producer_id": (await served.send(InitProducerIdRequest())).producer_id,
            "producer_epoch": 0,
        }
        async with served.broker.lazy.batch_checks.get().lock:
            first = asyncio.ensure_future(served.produce_bytes("t", large(base_sequence=0, **ids)))
            second = asyncio.ensure_future(served.produce("t", b"next", base_sequence=LARGE, **ids))
            third = asyncio.ensure_future(served.send(ApiVersionsRequest(), 0))
            await until_a_check_waits(served)
            await other.send(ApiVersionsRequest(), 0)
            assert not first.done()
            assert not second.done()
            assert not third.done()
        responses = await asyncio.gather(first, second)
        assert [(one.error_code, one.base_offset) for one in responses] == [(0, 0), (0, LARGE)]
        assert (await third).error_code == 0

    run(story)


def test_requests_stay_in_order_behind_one_that_is_decoded_in_slices_too(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        ids = {
            "producer_id": (await served.send(InitProducerIdRequest())).producer_id,
            "producer_epoch": 0,
        }
        request = request_of([large(base_sequence=0, **ids)])
        # Of partitions that are not there, so many that they are not decoded in one slice.
        request.topic_data[0].partition_data += [
            ProduceRequestPartition(index=index, records=b"none") for index in range(1, 12_000)
        ]
        async with served.broker.lazy.batch_checks.get().lock:
            first = asyncio.ensure_future(served.send(request, 9))
            second = asyncio.ensure_future(served.produce("t", b"next", base_sequence=LARGE, **ids))
            await until(lambda: any(one.is_blocked for one in served.broker.dispatcher.connections))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not second.done()
        row = (await first).responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (0, 0)
        response = await second
        assert (response.error_code, response.base_offset) == (0, LARGE)

    run(story)


def test_a_partition_that_is_gone_when_its_batch_is_checked_takes_it_no_more(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        async with served.broker.lazy.batch_checks.get().lock:
            sent = asyncio.ensure_future(served.produce_bytes("t", large()))
            await until_a_check_waits(served)
            await other.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)
        assert (await sent).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story)


def test_a_large_batch_is_appended_without_its_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        async with served.broker.lazy.batch_checks.get().lock:
            sent = asyncio.ensure_future(other.produce_bytes("t", large(), acks=0))
            await until_a_check_waits(served)
            other.peer.close()
            with pytest.raises(ConnectionError):
                await sent
        log = served.broker.replica_manager.find(WHERE).log
        await until(lambda: log.log_end_offset == LARGE)

    run(story)


def test_a_large_batch_that_is_damaged_is_refused_and_its_connection_goes_on(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        builder = BatchBuilder()
        builder.append(b"k", b"v", NOW)
        batch = builder.build()
        broken = large(Compression.GZIP)[HEADER_SIZE:-1] + b"x"
        damaged = seal(bytearray(HEADER_SIZE) + broken, LARGE, NOW, NOW)
        damaged[CRC_START + 1] |= Compression.GZIP
        crc = crc32c(memoryview(damaged)[CRC_START:])
        damaged[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
        response = await served.produce_bytes("t", damaged)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await served.produce_bytes("t", batch)).base_offset == 0

    run(story)


def request_of(batches: list[bytes | bytearray]) -> ProduceRequest:
    """Return one request with all batches for the one partition."""
    return produce_request("t", [(0, batch) for batch in batches], acks=1)


def test_a_request_of_many_batches_is_appended_in_slices(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        log = served.broker.replica_manager.find(WHERE).log
        builder = BatchBuilder()
        builder.append(None, b"v", NOW)
        seen = [0]

        async def watch() -> None:
            while log.log_end_offset < 1000:
                if log.log_end_offset != seen[-1]:
                    seen.append(log.log_end_offset)
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        response = await served.send(request_of([builder.build() for _ in range(1000)]), 9)
        rows = response.responses[0].partition_responses
        assert [row.base_offset for row in rows] == list(range(1000))
        await watching
        assert max(after - before for before, after in pairwise(seen)) < 200

    run(story)


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_request_decompresses_to_has_a_bound(
    run: Run, monkeypatch: pytest.MonkeyPatch, codec: Compression
) -> None:
    monkeypatch.setattr(request_appender, "_DECOMPRESSED_BYTES", 12_000_000)

    async def story(served: Served) -> None:
        await served.topic("t")
        batch = large(codec)
        response = await served.send(request_of([batch] * 4), 9)
        rows = response.responses[0].partition_responses
        too_large = ErrorCode.MESSAGE_TOO_LARGE
        assert [row.error_code for row in rows] == [0, 0, too_large, too_large]

    if codec is Compression.SNAPPY:  # its batch is large enough to say how much there may be
        monkeypatch.setattr(request_appender, "_DECOMPRESSED_RATIO", 0)
    run(story)


@pytest.mark.parametrize("is_member", [True, False])
def test_a_large_batch_of_a_transaction_is_checked_before_its_coordinator_is_asked(
    run: Run, is_member: bool
) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        if is_member:
            await producer.add()
        batch = large(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        request = request_of([batch])
        request.transactional_id = producer.name
        log = served.broker.replica_manager.find(WHERE).log
        async with served.broker.lazy.batch_checks.get().lock:
            sent = asyncio.ensure_future(served.send(request, 9))
            await until_a_check_waits(served)
            assert not log.producers.knows(producer.producer_id)
        response = (await sent).responses[0].partition_responses[0]
        if is_member:
            assert (response.error_code, response.base_offset) == (0, 0)
        else:
            assert response.error_code == ErrorCode.INVALID_TXN_STATE
        assert log.log_end_offset == (LARGE if is_member else 0)

    run(story, **SETTINGS)


def test_a_large_recompression_leaves_the_loop(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", compression__type="gzip")
        builder = BatchBuilder()
        builder.append(None, bytes(200_000), NOW)
        async with served.broker.lazy.batch_checks.get().lock:
            sent = asyncio.ensure_future(served.produce_bytes("t", builder.build()))
            await until_a_check_waits(served)
            assert not sent.done()
        assert (await sent).error_code == 0
        assert [record.value for record in await served.read("t")] == [bytes(200_000)]

    run(story)


async def pipelined(
    served: Served, *frames: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send frames on one new connection in one packet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"".join(frames))
    return reader, writer


async def next_base_offset(reader: asyncio.StreamReader) -> tuple[int, int]:
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    row = decode_response(ProduceResponse, 9, frame)[1].responses[0].partition_responses[0]
    return row.error_code, row.base_offset


async def batches_in_sequence(served: Served) -> tuple[bytes, bytes]:
    """Return two requests of one producer: a batch that is checked in the pool, and the next one."""
    ids = {
        "producer_id": (await served.send(InitProducerIdRequest())).producer_id,
        "producer_epoch": 0,
    }
    builder = BatchBuilder()
    builder.append(None, b"next", NOW)
    second = builder.build(base_sequence=LARGE, **ids)
    first = large(base_sequence=0, **ids)
    return framed(request_of([first]), 9, 2), framed(request_of([second]), 9, 3)


def test_requests_stay_in_order_behind_one_that_waited_behind_a_large_one(run: Run) -> None:
    """The first Produce is handled when the Metadata before it is answered, and blocks its connection then."""

    async def story(served: Served) -> None:
        await served.topic("t")
        first, second = await batches_in_sequence(served)
        names = [MetadataRequestTopic(name=f"topic-{n}") for n in range(20_000)]
        metadata = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        reader, writer = await pipelined(served, framed(metadata, 9, 1), first, second)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        assert await next_base_offset(reader) == (0, 0)
        assert await next_base_offset(reader) == (0, LARGE)
        writer.close()

    run(story)


def test_requests_that_came_before_the_start_was_over_stay_in_order(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        first, second = await batches_in_sequence(served)
        dispatcher = served.broker.dispatcher
        dispatcher._has_begun = False
        for connection in dispatcher.connections:
            connection.block()
        reader, writer = await pipelined(served, first, second)
        await until(lambda: any(one.waiting_frames == 2 for one in dispatcher.connections))
        dispatcher.begin(served.broker.handler_parts.bind)
        assert await next_base_offset(reader) == (0, 0)
        assert await next_base_offset(reader) == (0, LARGE)
        writer.close()

    run(story)
