"""Batches record by record: `decode_records` for readers, `BatchBuilder` for producers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.io import Buffer, TakeMemory
from kavka.wire.records import kernel
from kavka.wire.records.body import DECOMPRESSED_LIMIT, body_of, seal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import HEADER_SIZE, BatchHeader, read_header

Header = tuple[str, bytes | None]
HeaderInput = Sequence[tuple[str | bytes, bytes | None]]

_SMALL: Final = 8000
_SMALL_OVERHEAD: Final = 16
_OVERHEAD: Final = 32
_NEAR_MS: Final = 1 << 26


class Record(NamedTuple):
    """A record as a consumer sees it; `timestamp_type` is 0 for the producer's time, 1 for the log's."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def decode_records(
    buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT
) -> list[Record]:
    """Return the records of the batch, those of a control batch too.

    The CRC is not checked: `header.batch_crc` returns it for a check. Raise CorruptBatch for records
    that break the format, BatchTooLarge when they decompress to more than `limit` bytes.
    """
    found: list[Record] = decode_as(Record, (), buffer, header, limit)
    return found


def decode_as(
    record_type: type[tuple[Any, ...]],
    prefix: tuple[Any, ...],
    buffer: Buffer,
    header: BatchHeader,
    limit: int = DECOMPRESSED_LIMIT,
    *,
    take: TakeMemory | None = None,
) -> list[Any]:
    """As `decode_records`, into another NamedTuple: of the fields of `prefix`, then those of Record.

    `take` gives memory for what is decompressed, which is dropped again.
    """
    body, start, end = body_of(buffer, header, limit, take)
    return kernel.records(
        body,
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        int(header.timestamp_type),
        header.max_timestamp,
        record_type,
        prefix,
    )


def decode_batch(buffer: Buffer, position: int = 0) -> list[Record]:
    """Return the records of the batch at `position`."""
    return decode_records(buffer, read_header(buffer, position))


def _key_size(name: str | bytes) -> int:
    return len(name.encode()) if isinstance(name, str) else len(name)


_Row = tuple[bytes | None, bytes | None, int, HeaderInput | None]


def build_batch(
    rows: Sequence[tuple[bytes | None, bytes | None]],
    timestamp: int,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """Return the batch of records, keys and values, that all have the same time and no headers.

    Raise as `BatchBuilder.build`.
    """
    count = len(rows)
    if count == 0:
        raise ValueError("a batch needs a record")
    keys, values = zip(*rows, strict=True)
    batch = kernel.encode(count, None, keys, values, None, timestamp, HEADER_SIZE)
    return seal(batch, count, timestamp, timestamp, compression=compression)


class BatchBuilder:
    """A batch that is being filled.

    `append` only collects, at the cost of a few list appends; the kernel encodes all at once in `build`.

    `size` bounds the batch from above before compression. A record below 8,000 bytes counts 16 bytes beside key
    and value: its length, key length and value length take 2 each at most, attributes 1, the timestamp delta 4
    (it is checked), the offset delta 4, the header count 1.
    """

    __slots__ = ("_earliest", "_latest", "_measured", "_rows", "_size")

    def __init__(self) -> None:
        """Start empty."""
        self._rows: list[_Row] = []
        # Timestamps between these have a delta of 4 bytes; none is, before the first record sets the base.
        self._earliest = self._latest = 0
        self._measured = 0
        """Number of records that `_size` includes."""
        self._size = HEADER_SIZE

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._rows)

    @property
    def size(self) -> int:
        """An upper bound of the batch's size without compression; what was added since it was asked for is measured."""
        rows = self._rows
        if self._measured == 0 and rows:
            self._earliest = rows[0][2] - _NEAR_MS
            self._latest = rows[0][2] + _NEAR_MS
        earliest, latest = self._earliest, self._latest
        for key, value, timestamp, headers in rows[self._measured :]:
            length = _SMALL_OVERHEAD
            if key is not None:
                length += len(key)
            if value is not None:
                length += len(value)
            if headers:
                length += _headers_bound(headers)
            if length >= _SMALL or not earliest < timestamp < latest:
                length += _OVERHEAD - _SMALL_OVERHEAD
            self._size += length
        self._measured = len(rows)
        return self._size

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderInput | None = None,
    ) -> int:
        """Add a record and return its index in the batch; the buffers must not change until `build`."""
        rows = self._rows
        rows.append((key, value, timestamp, headers))
        return len(rows) - 1

    def build(
        self,
        compression: Compression = Compression.NONE,
        *,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytearray:
        """Return the batch, sealed; the builder can be built again, with another producer say.

        Raise ValueError when it is empty or too large, TypeError for a key, value or header that is no bytes.
        """
        count = len(self._rows)
        if count == 0:
            raise ValueError("a batch needs a record")
        keys, values, timestamps, headers = zip(*self._rows, strict=True)
        base_timestamp = timestamps[0]
        batch = kernel.encode(
            count,
            timestamps,
            keys,
            values,
            headers if any(headers) else None,
            base_timestamp,
            HEADER_SIZE,
        )
        return seal(
            batch,
            count,
            base_timestamp,
            max(timestamps),
            compression=compression,
            level=level,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )


def _headers_bound(headers: HeaderInput) -> int:
    """Return what headers may add to a record; their count may take more than a byte."""
    return 4 + sum(10 + _key_size(name) + len(content or b"") for name, content in headers)
