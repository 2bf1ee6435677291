"""Records to the bytes of a batch, in one call of the kernel per batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.wire.records import kernel
from kavka.wire.records.body import seal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import HEADER_SIZE

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
    transactional: bool = False,
) -> bytearray:
    """Return a batch of magic 2 with base offset 0. `keys` None means no keys; `headers` is by index of the record."""
    count = len(values)
    base_timestamp, max_timestamp = timestamps[0], max(timestamps)
    times = None if max_timestamp == base_timestamp == min(timestamps) else timestamps
    header_lists = [headers.get(i) for i in range(count)] if headers else None
    body = kernel.encode(count, times, keys, values, header_lists, base_timestamp, HEADER_SIZE)
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
