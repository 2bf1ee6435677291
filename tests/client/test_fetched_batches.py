"""Fetched batches as columns and as Arrow, and batches of a producer: memory that is used again, and damage."""

import pickle

import pytest

from kavka.client.consumer.batches import CorruptRecordError, Deserializers, FetchedBatches
from kavka.client.producer.encoding import encode_records
from kavka.ids import TopicPartition
from kavka.io import Buffer
from kavka.net.frame_memory import FrameMemory
from kavka.wire.records.batch import BatchBuilder, decode_records
from kavka.wire.records.body import seal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import (
    HEADER_SIZE,
    BatchHeader,
    batch_crc,
    read_header,
    walk_complete,
)

AT = TopicPartition("t", 0)
ROWS = 100


def fetched(contents: list[int], codec: Compression, *, cut: int = 0) -> FetchedBatches:
    """Return batches of records of about a kilobyte, each in a response of its own."""
    spans: list[tuple[Buffer, list[BatchHeader]]] = []
    for place, content in enumerate(contents):
        builder = BatchBuilder()
        for index in range(ROWS):
            builder.append(None, b"%03d-%03d" % (content, index) * 150, 1000 + index, ())
        response = builder.build(codec, base_offset=place * ROWS)
        spans.append((response, list(walk_complete(response))))
    end = len(contents) * ROWS
    return FetchedBatches(AT, spans, cut, end - cut, check_crcs=True, deserializers=Deserializers())


def damage(batches: FetchedBatches, place: int) -> None:
    buffer, _ = batches._spans[place]
    assert isinstance(buffer, bytearray)
    buffer[-1] ^= 1


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4, Compression.ZSTD])
def test_tables_that_are_kept_stay_as_they_were(codec: Compression) -> None:
    tables = [fetched([number], codec).to_arrow() for number in range(30)]
    parts = [tables[number].column("value").slice(40, 2) for number in range(0, 30, 3)]
    del tables[::2]
    more = [fetched([number], codec).to_arrow() for number in range(30, 60)]
    for number, table in zip([*range(1, 30, 2), *range(30, 60)], tables + more, strict=True):
        expected = [b"%03d-%03d" % (number, index) * 150 for index in range(ROWS)]
        assert table.column("value").to_pylist() == expected
    for place, part in enumerate(parts):
        assert part[1].as_py() == b"%03d-041" % (3 * place) * 150


def test_memory_of_dropped_tables_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.client.consumer.batches.RECORDS", FrameMemory())
    table = fetched([1], Compression.NONE).to_arrow()
    address = table.column("value").buffers()[2].address
    part = table.column("value").slice(99)
    del table
    other = fetched([2], Compression.NONE).to_arrow()
    assert other.column("value").buffers()[2].address != address
    assert part[0].as_py() == b"001-099" * 150
    del part
    third = fetched([3], Compression.NONE).to_arrow()
    assert third.column("value").buffers()[2].address == address
    assert other.column("value")[0].as_py() == b"002-000" * 150


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_batches_of_several_responses_are_one_table(codec: Compression) -> None:
    batches = fetched([1, 2, 3], codec, cut=10)
    records = batches.records()
    table, columns = batches.to_arrow(), batches.columns()
    assert len(records) == 3 * ROWS - 20
    assert table.column("offset").to_pylist() == [record.offset for record in records]
    assert table.column("value").to_pylist() == [record.value for record in records]
    assert table.column("timestamp").cast("int64").to_pylist() == [r.timestamp for r in records]
    assert columns.next_offset == 3 * ROWS - 10
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_what_is_before_a_damaged_batch_is_one_table() -> None:
    batches = fetched([1, 2, 3], Compression.LZ4)
    damage(batches, 2)
    moved: list[tuple[int, int]] = []

    def go_back(topic_partition: TopicPartition, at: int, to: int) -> bool:
        moved.append((at, to))
        return True

    batches.go_back = go_back
    assert batches.to_arrow().column("offset").to_pylist() == list(range(2 * ROWS))
    assert moved == [(3 * ROWS, 2 * ROWS)]
    batches = fetched([1], Compression.LZ4)
    damage(batches, 0)
    with pytest.raises(CorruptRecordError, match="checksum"):
        batches.to_arrow()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_batches_of_a_producer_stay_as_they_are_until_nothing_refers_to_them(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.client.producer.encoding.REQUESTS", FrameMemory())

    def encoded(number: int) -> Buffer:
        values = [b"%03d-%03d" % (number, index) * 150 for index in range(ROWS)]
        return encode_records(
            values,
            [5] * ROWS,
            None,
            {},
            compression=codec,
            level=None,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )

    batches = [encoded(number) for number in range(9)]
    del batches[::2]
    batches += [encoded(number) for number in range(9, 12)]
    for number, batch in zip([1, 3, 5, 7, 9, 10, 11], batches, strict=True):
        header = read_header(batch)
        assert batch_crc(batch, header) == header.crc
        found = [record.value for record in decode_records(batch, header)]
        assert found == [b"%03d-%03d" % (number, index) * 150 for index in range(ROWS)]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_batch_without_records_has_none(codec: Compression) -> None:
    batch = seal(bytearray(HEADER_SIZE), 0, 0, 0, compression=codec)
    spans: list[tuple[Buffer, list[BatchHeader]]] = [(batch, list(walk_complete(batch)))]
    batches = FetchedBatches(AT, spans, 0, 1, check_crcs=True, deserializers=Deserializers())
    assert batches.records() == []
    assert batches.to_arrow().num_rows == 0
