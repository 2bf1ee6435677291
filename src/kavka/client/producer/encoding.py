"""Records to the bytes of a batch, in one call of the kernel per batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crc32c import crc32c

from kavka.wire.records import kernel
from kavka.wire.records.compression import Compression, compress
from kavka.wire.records.header import CRC_START, HEADER, HEADER_SIZE, LENGTH_END, MAGIC

Headers = Sequence[tuple[str, bytes | None]]
"""Headers of a record, in order; names may repeat."""


def encode_records(
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    keys: Sequence[bytes | None] | None,
    headers: Mapping[int, Headers],
    *,
    compression: Compression,
    level: int | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytearray:
    """Return a batch of magic 2 with base offset 0. `keys` None means no keys; `headers` is by index of the record."""
    count = len(values)
    base_timestamp, max_timestamp = timestamps[0], max(timestamps)
    times = None if max_timestamp == base_timestamp == min(timestamps) else timestamps
    header_lists = [headers.get(i) for i in range(count)] if headers else None
    reserve = HEADER_SIZE if compression is Compression.NONE else 0
    body = kernel.encode(count, times, keys, values, header_lists, base_timestamp, reserve)
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
    )


def seal(
    body: bytearray,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    compression: Compression,
    level: int | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytearray:
    """Return `body` as a batch: compressed, or in place when it begins with 61 bytes of room for the header."""
    if compression is Compression.NONE:
        batch = body
    else:
        batch = bytearray(HEADER_SIZE)
        batch += compress(compression, body, level)
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LENGTH_END, -1, MAGIC, 0, compression, count - 1,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    crc = crc32c(memoryview(batch)[CRC_START:])
    batch[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return batch
