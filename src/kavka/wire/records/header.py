"""The header of a record batch: 61 bytes, read with one Struct and patched in place.

    0  base offset            8      27 base timestamp       8
    8  batch length           4      35 max timestamp        8
    12 partition leader epoch 4      43 producer id          8
    16 magic                  1      51 producer epoch       2
    17 CRC-32C of bytes 21..  4      53 base sequence        4
    21 attributes             2      57 record count         4
    23 last offset delta      4      61 records

The broker assigns offset and leader epoch, which lie before what the CRC covers: that is why a batch can stay
opaque. Everything here is on the path of each Produce and Fetch. Source: protocol guide, "Record batch".
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from kavka.io import Buffer
from kavka.wire.crc32c import crc32c
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import CorruptBatch

HEADER_SIZE: Final = 61
MAGIC: Final = 2
LENGTH_END: Final = 12
"""Bytes before what the batch length counts."""
CRC_START: Final = 21
"""The first byte that the CRC covers."""
MAGIC_POSITION: Final = 16
"""Position of the magic byte, the same in batches and in legacy messages of magic 0 and 1."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")
_CRC: Final = Struct(">I")
_MAX_TIMESTAMP_POSITION: Final = 35
_CODECS: Final = tuple(Compression)


class TimestampType(IntEnum):
    """The source of the timestamps of a batch: the producer or the log."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of the batch at byte `position` of the buffer that it was read from."""

    position: int
    base_offset: int
    batch_length: int
    size: int  # Invariant: size == batch_length + 12 >= 61
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raise CorruptBatch for a number that Kafka has not allocated."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > 4:
            raise CorruptBatch(f"unknown compression codec {codec}", self.position + CRC_START)
        return _CODECS[codec]

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction (control batches of one too)."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a marker, which consumers do not see."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether the base timestamp is the time after which the cleaner may remove tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """Return the source of the timestamps: the producer or the log."""
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when the cleaner has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 without one; it wraps from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def end(self) -> int:
        """The byte after the batch."""
        return self.position + self.size


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; the records after it need not be in the buffer.

    Raise CorruptBatch when 61 bytes are not there, the magic is not 2 or the length is less than a header's.
    """
    if position < 0 or len(buffer) - position < HEADER_SIZE:
        raise CorruptBatch("fewer than the 61 bytes of a batch header", position)
    fields = HEADER.unpack_from(buffer, position)
    if fields[3] != MAGIC:
        raise CorruptBatch(f"magic {fields[3]} where 2 was expected", position)
    size = fields[1] + LENGTH_END
    if size < HEADER_SIZE:
        raise CorruptBatch(f"batch length {fields[1]} is less than a header's", position)
    return tuple.__new__(BatchHeader, (position, fields[0], fields[1], size, *fields[2:]))


def walk(buffer: Buffer, start: int = 0, end: int | None = None) -> list[BatchHeader]:
    """Return the headers of the batches that fill `buffer[start:end]` exactly.

    Raise CorruptBatch for anything that `read_header` refuses and for a batch that reaches past `end`.
    """
    stop = len(buffer) if end is None else end
    headers = []
    while start < stop:
        header = read_header(buffer, start)
        start += header.size
        if start > stop:
            raise CorruptBatch(
                f"a batch of {header.size} bytes in {stop - header.position}", header.position
            )
        headers.append(header)
    return headers


def walk_complete(buffer: Buffer, start: int = 0, end: int | None = None) -> list[BatchHeader]:
    """Return the headers of all whole batches from `start` on; a last one that is cut by `end` is left out.

    That is the shape of a Fetch response. Raise CorruptBatch for anything else that is wrong.
    """
    stop = len(buffer) if end is None else end
    headers = []
    while stop - start >= HEADER_SIZE:
        header = read_header(buffer, start)
        start += header.size
        if start > stop:
            break
        headers.append(header)
    return headers


def assign(
    buffer: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int
) -> BatchHeader:
    """Write the offset and the leader epoch into the batch and return its new header; the CRC stays true."""
    position = header[0]
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + 12, leader_epoch)
    return tuple.__new__(
        BatchHeader, (position, base_offset, header[2], header[3], leader_epoch, *header[5:])
    )


def stamp_log_append_time(
    buffer: bytearray | memoryview, header: BatchHeader, now_ms: int
) -> BatchHeader:
    """Stamp all records of the batch with `now_ms`: attribute, max timestamp and a new CRC."""
    position = header.position
    attributes = header.attributes | LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes)
    _OFFSET.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    crc = batch_crc(buffer, header)
    _CRC.pack_into(buffer, position + CRC_START - 4, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def stamp_max_timestamp(
    buffer: bytearray | memoryview, header: BatchHeader, max_timestamp: int
) -> BatchHeader:
    """Correct a wrong max timestamp of a produced batch, with a new CRC."""
    _OFFSET.pack_into(buffer, header.position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = batch_crc(buffer, header)
    _CRC.pack_into(buffer, header.position + CRC_START - 4, crc)
    return header._replace(max_timestamp=max_timestamp, crc=crc)


def batch_crc(buffer: Buffer, header: BatchHeader) -> int:
    """Return the CRC-32C of the batch as it is; equal to `header.crc` when it is sound.

    The whole batch must be in the buffer.
    """
    position = header[0]
    assert position + header[3] <= len(buffer), "the batch is not whole"
    return crc32c(memoryview(buffer)[position + CRC_START : position + header[3]])


def encode_header(header: BatchHeader) -> bytes:
    """Return the 61 bytes that `read_header` reads."""
    return HEADER.pack(header[1], header[2], *header[4:])
