"""Cutting what is buffered of a partition into what a poll may return. Pure."""

from __future__ import annotations

from kavka.client.consumer.batches import Chunk, Deserializers, FetchedBatches
from kavka.client.consumer.subscription import PartitionState
from kavka.io import Buffer
from kavka.wire.records.header import BatchHeader


def drain_buffer(
    state: PartitionState, max_records: int, *, check_crcs: bool, deserializers: Deserializers
) -> tuple[FetchedBatches | None, int]:
    """Take up to `max_records` records, cutting a batch by offsets if it is larger, and move the position past them."""
    first = state.position
    assert first is not None
    position = first
    spans: list[tuple[Buffer, list[BatchHeader]]] = []
    total = 0
    while state.buffered and total < max_records:
        chunk: Chunk = state.buffered[0]
        headers: list[BatchHeader] = []
        cut_at: int | None = None
        for header in chunk.headers:
            if header.last_offset < position:
                continue  # taken before
            start = max(position, header.base_offset)
            count = min(header.record_count, header.last_offset - start + 1)
            headers.append(header)
            state.position_epoch = header.partition_leader_epoch
            if count > max_records - total:
                cut_at = start + max_records - total
                total = max_records
                break
            total += count
            position = header.last_offset + 1
            if total == max_records:
                cut_at = position
                break
        if headers:
            spans.append((chunk.buffer, headers))
        if cut_at is not None and cut_at < chunk.next_offset:
            position = cut_at
            break
        position = chunk.next_offset
        state.buffered.popleft()
        state.buffered_bytes -= chunk.size
    state.position = position
    if not spans:
        return None, 0
    batches = FetchedBatches(
        state.topic_partition,
        spans,
        first,
        position,
        check_crcs=check_crcs,
        deserializers=deserializers,
    )
    return batches, total
