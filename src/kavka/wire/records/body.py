"""The records of a batch: taken out of it uncompressed, and put under a header."""

from __future__ import annotations

from typing import Final, TypeVar

from kavka.io import Buffer, TakeMemory
from kavka.wire.crc32c import crc32c
from kavka.wire.records.compression import Compression, compress, decompress
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    encode_header,
)

DECOMPRESSED_LIMIT: Final = 1 << 30
"""Default limit in bytes of the decompressed records of one batch."""
LARGEST_BATCH: Final = 0x7FFF_FFFF - LENGTH_END


def body_of(
    buffer: Buffer,
    header: BatchHeader,
    limit: int = DECOMPRESSED_LIMIT,
    take: TakeMemory | None = None,
) -> tuple[Buffer, int, int]:
    """Return (body, start, end), the uncompressed records of the batch; its own buffer when it has no codec.

    `take` may give the memory for it.

    Raise CorruptBatch when the batch is not whole or does not decompress, BatchTooLarge beyond `limit`.
    """
    start, end = header.position + HEADER_SIZE, header.end
    if end > len(buffer):
        raise CorruptBatch("a batch that is cut", header.position)
    codec = header.compression
    if codec is Compression.NONE:
        return buffer, start, end
    body = decompress(codec, memoryview(buffer)[start:end], limit, take)
    return body, 0, len(body)


B = TypeVar("B", bound=bytearray | memoryview)


def seal(
    batch: B,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> B | bytearray:
    """Return a batch of `count` records that follow 61 free bytes in `batch`, which is used up.

    Raise ValueError when the batch would not fit a 32-bit length.
    """
    sealed: B | bytearray = batch
    if compression is not Compression.NONE:
        packed = compress(compression, memoryview(batch)[HEADER_SIZE:], level)
        sealed = bytearray(HEADER_SIZE) + packed
    if len(sealed) > LARGEST_BATCH:
        raise ValueError(f"a batch of {len(sealed)} bytes")
    attributes = int(compression)
    if timestamp_type:
        attributes |= LOG_APPEND_TIME_BIT
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    fields = (
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    length = len(sealed) - LENGTH_END
    HEADER.pack_into(sealed, 0, base_offset, length, leader_epoch, MAGIC, 0, *fields)
    crc = crc32c(memoryview(sealed)[CRC_START:])
    sealed[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return sealed


def reseal(
    header: BatchHeader,
    records: Buffer,
    compression: Compression,
    level: int | None = None,
    *,
    record_count: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """Return a batch with the header's offsets, producer and attributes around other bytes of records.

    `records` are uncompressed. Recompression leaves count and max timestamp; the cleaner, which drops records,
    gives new ones. Raise ValueError when the batch would not fit a 32-bit length.
    """
    packed = compress(compression, records, level)
    batch = bytearray(HEADER_SIZE) + packed
    if len(batch) > LARGEST_BATCH:
        raise ValueError(f"a batch of {len(batch)} bytes")
    new = header._replace(
        position=0,
        batch_length=len(batch) - LENGTH_END,
        size=len(batch),
        attributes=header.attributes & ~COMPRESSION_MASK | compression,
        record_count=header.record_count if record_count is None else record_count,
        max_timestamp=header.max_timestamp if max_timestamp is None else max_timestamp,
    )
    batch[:HEADER_SIZE] = encode_header(new)
    crc = crc32c(memoryview(batch)[CRC_START:])
    batch[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return batch
