"""The records of a batch, some at a time: for readers on an event loop, which a batch of millions must not keep.

body_if_small --None--> body_of, in the pool
      '--------- body ------'--> record_slices
"""

from __future__ import annotations

from collections.abc import Iterator

from kavka.io import Buffer
from kavka.wire.primitives import read_varint
from kavka.wire.records import corrupt, kernel
from kavka.wire.records.batch import Record
from kavka.wire.records.compression import Compression, decompress_small
from kavka.wire.records.corrupt import CorruptBatch, CorruptBody
from kavka.wire.records.header import HEADER_SIZE, BatchHeader

Body = tuple[Buffer, int, int]
"""Uncompressed records, and where they start and end, as `body_of` returns them."""


def body_if_small(buffer: Buffer, header: BatchHeader) -> Body | None:
    """Return the body of a whole batch if that takes little time; else None, and `body_of` is to be asked elsewhere."""
    start, end = header.position + HEADER_SIZE, header.end
    if header.compression is Compression.NONE:
        return buffer, start, end
    try:
        body = decompress_small(header.compression, memoryview(buffer)[start:end])
    except CorruptBody:
        return None  # `body_of` reads more, for it is to read what brokers of earlier versions took
    return None if body is None else (body, 0, len(body))


def record_slices(body: Body, header: BatchHeader, max_records: int) -> Iterator[list[Record]]:
    """Yield the records of a batch, at most `max_records` in a list.

    Raise CorruptBatch for records that break the format; the lists before them have been yielded.
    """
    buffer, start, end = body
    count = header.record_count
    while count > max_records:
        slice_end = _end_of(buffer, start, end, max_records)
        yield _decode(buffer, start, slice_end, max_records, header)
        start = slice_end
        count -= max_records
    yield _decode(buffer, start, end, count, header)


def _decode(buffer: Buffer, start: int, end: int, count: int, header: BatchHeader) -> list[Record]:
    records: list[Record] = kernel.records(
        buffer,
        start,
        end,
        count,
        header.base_offset,
        header.base_timestamp,
        int(header.timestamp_type),
        header.max_timestamp,
        Record,
        (),
    )
    return records


def _end_of(buffer: Buffer, position: int, end: int, count: int) -> int:
    """Return where the last of `count` records ends."""
    try:
        for _ in range(count):
            length, begin = buffer[position], position + 1
            if length >= 0x80:
                length, begin = read_varint(buffer, begin, length)
            position = begin + (length >> 1)  # a zigzag number, which is odd if it is negative
            if length & 1 or position > end:
                raise CorruptBatch(corrupt.FAULTS[corrupt.LENGTH], position)
    except (IndexError, ValueError) as error:
        raise CorruptBatch(corrupt.FAULTS[corrupt.LENGTH], position) from error
    return position
