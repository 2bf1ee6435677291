"""Records to the bytes of a batch, in one call of the kernel per batch; some before their producer is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from kavka.io import Buffer
from kavka.net.frame_memory import REQUESTS
from kavka.wire.crc32c import crc32c
from kavka.wire.records import kernel
from kavka.wire.records.body import seal
from kavka.wire.records.columns import decode_columns, encode_columns
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import CRC_START, HEADER_SIZE, TRANSACTIONAL_BIT

_PRODUCER = Struct(">qhi")
_PRODUCER_POSITION = 43
_LOW_ATTRIBUTES = CRC_START + 1

Headers = Sequence[tuple[str, bytes | None]]
"""Headers of a record, in order; names may repeat."""


def encode_records(  # noqa: PLR0913  # the fields of a batch
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Headers | bytes],
    *,
    compression: Compression,
    level: int | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> Buffer:
    """Return a batch of magic 2 with base offset 0; a large one is in memory that was used before.

    `keys` None means no keys; `headers` is by index of the record.
    """
    count = len(values)
    base_timestamp, max_timestamp = timestamps[0], max(timestamps)
    times = None if max_timestamp == base_timestamp == min(timestamps) else timestamps
    header_lists = [headers.get(i) for i in range(count)] if headers else None
    body = kernel.encode(
        count, times, keys, values, header_lists, base_timestamp, HEADER_SIZE, REQUESTS.take
    )
    return seal(
        body,
        count,
        base_timestamp,
        max_timestamp,
        compression=compression,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


class EncodedRecords:
    """An encoded batch without a known producer."""

    __slots__ = ("_batch", "_compression", "_count", "_level")

    def __init__(
        self, batch: bytearray, count: int, compression: Compression, level: int | None
    ) -> None:
        """Keep `count` records that are encoded and, with a codec, compressed."""
        self._batch = batch
        self._count = count
        self._compression = compression
        self._level = level

    def __len__(self) -> int:
        """Return how many records there are."""
        return self._count

    def encode(
        self,
        compression: Compression,
        level: int | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool = False,
    ) -> bytearray:
        """Return the batch with the producer's fields and a new checksum."""
        batch = bytearray(self._batch)
        _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
        if transactional:
            batch[_LOW_ATTRIBUTES] |= TRANSACTIONAL_BIT
        crc = crc32c(memoryview(batch)[CRC_START:])
        batch[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
        return batch

    def timestamp(self, index: int) -> int:
        """Return the timestamp of a record."""
        columns = decode_columns(self._batch)
        return int(memoryview(columns.timestamps).cast("B").cast("q")[index])

    def slice(self, start: int, end: int) -> EncodedRecords:
        """Return some of the records as a batch of their own."""
        columns = decode_columns(self._batch)
        batch = encode_columns(
            columns, start, end - start, compression=self._compression, level=self._level
        )
        return EncodedRecords(batch, end - start, self._compression, self._level)
