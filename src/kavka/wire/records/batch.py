"""Batches record by record: `decode_records` for readers, `BatchBuilder` for producers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.doors import Buffer
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

    The CRC is not looked at: `header.batch_crc` is for whoever wants it checked. Raise CorruptBatch for records
    that break the format, BatchTooLarge when they decompress to more than `limit` bytes.
    """
    body, start, end = body_of(buffer, header, limit)
    return kernel.records(
        body,
        start,
        end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        int(header.timestamp_type),
        header.max_timestamp,
        Record,
    )


def decode_batch(buffer: Buffer, position: int = 0) -> list[Record]:
    """Return the records of the batch at `position`."""
    return decode_records(buffer, read_header(buffer, position))


def size_bound(key: bytes | None, value: bytes | None, headers: HeaderInput | None = None) -> int:
    """Return bytes that a record never exceeds in a batch before compression."""
    size = _OVERHEAD + 4 + len(key or b"") + len(value or b"")
    for name, content in headers or ():
        size += 10 + _key_size(name) + len(content or b"")
    return size


def _key_size(name: str | bytes) -> int:
    return len(name.encode()) if isinstance(name, str) else len(name)


class BatchBuilder:
    """A batch that is being filled.

    `append` only collects, at the cost of a few list appends; the kernel encodes all at once in `build`.

    `size` bounds the batch from above before compression. A record below 8,000 bytes counts 16 bytes beside key
    and value: its length, key length and value length take 2 each at most, attributes 1, the timestamp delta 4
    (it is checked), the offset delta 4, the header count 1.
    """

    __slots__ = (
        "_earliest",
        "_headers",
        "_keys",
        "_latest",
        "_timestamps",
        "_values",
        "size",
    )

    def __init__(self) -> None:
        """Start empty."""
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._headers: list[HeaderInput | None] | None = None
        # Timestamps between these have a delta of 4 bytes; none is, before the first record sets the base.
        self._earliest = self._latest = 0
        self.size = HEADER_SIZE

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._values)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderInput | None = None,
    ) -> int:
        """Add a record and return its index in the batch; the buffers must not change until `build`."""
        length = _SMALL_OVERHEAD
        if key is not None:
            length += len(key)
        if value is not None:
            length += len(value)
        timestamps = self._timestamps
        index = len(timestamps)
        if index == 0:
            self._start(timestamp)
        if headers or self._headers is not None:
            length += self._add_headers(index, headers or ())
        if length < _SMALL and self._earliest < timestamp < self._latest:
            self.size += length
        else:
            self.size += length + _OVERHEAD - _SMALL_OVERHEAD
        self._keys.append(key)
        self._values.append(value)
        timestamps.append(timestamp)
        return index

    def append_many(
        self, pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp: int
    ) -> range:
        """Add (key, value) pairs of one time and return their indexes."""
        keys, values = self._keys, self._values
        first = len(values)
        for key, value in pairs:
            keys.append(key)
            values.append(value)
        count = len(values) - first
        if first == 0:
            self._start(timestamp)
        self._timestamps.extend([timestamp] * count)
        if self._headers is not None:
            self._headers.extend([None] * count)
        length = sum(map(len, filter(None, keys[first:] if first else keys)))
        length += sum(map(len, filter(None, values[first:] if first else values)))
        is_small = self._earliest < timestamp < self._latest
        if is_small and length + _SMALL_OVERHEAD >= _SMALL:
            is_small = all(
                len(key or b"") + len(value or b"") + _SMALL_OVERHEAD < _SMALL
                for key, value in zip(keys[first:], values[first:], strict=True)
            )
        self.size += length + count * (_SMALL_OVERHEAD if is_small else _OVERHEAD)
        return range(first, len(values))

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
        count = len(self._values)
        if count == 0:
            raise ValueError("a batch needs a record")
        base_timestamp = self._timestamps[0]
        batch = kernel.encode(
            count,
            self._timestamps,
            self._keys,
            self._values,
            self._headers,
            base_timestamp,
            HEADER_SIZE,
        )
        return seal(
            batch,
            count,
            base_timestamp,
            max(self._timestamps),
            compression=compression,
            level=level,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def _start(self, timestamp: int) -> None:
        """Take the first record's time as the base."""
        self._earliest = timestamp - _NEAR_MS
        self._latest = timestamp + _NEAR_MS

    def _add_headers(self, index: int, headers: HeaderInput) -> int:
        """Note headers and return what they may add to the size; their count may take more than a byte."""
        if self._headers is None:
            self._headers = [None] * index
        if not headers:
            self._headers.append(None)
            return 0
        self._headers.append(headers)
        return 4 + sum(10 + _key_size(name) + len(content or b"") for name, content in headers)
