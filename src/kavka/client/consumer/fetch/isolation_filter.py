"""Isolation: the fetched batches that a consumer may see. Pure.

Control batches are never shown. With read_committed, batches of aborted transactions are not shown either: the
broker names the transactions (producer, first offset) that were aborted in the fetched range; from that offset on
the producer's batches are skipped until its abort marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kavka.client.consumer.batches import Chunk
from kavka.client.consumer.subscription import PartitionState
from kavka.io import Buffer
from kavka.wire.messages.fetch import FetchResponseAbortedTransaction
from kavka.wire.records.control import ControlType, control_type_of
from kavka.wire.records.header import BatchHeader, walk_complete


def filter_by_isolation(
    state: PartitionState,
    buffer: Buffer,
    aborted: Sequence[FetchResponseAbortedTransaction] | None,
    read_committed: bool,
) -> Chunk | None:
    """Return what the response brings for `state.fetch_position` on, None when it holds no whole batch beyond it.

    With read_committed, `state.aborted` is carried from answer to answer. Raise CorruptBatch.
    """
    headers = walk_complete(buffer)
    next_offset = state.fetch_position
    shown: list[BatchHeader] = []
    waiting = (
        deque(sorted(aborted or (), key=lambda a: a.first_offset)) if read_committed else deque()
    )
    for header in headers:
        while waiting and waiting[0].first_offset <= header.last_offset:
            state.aborted[waiting.popleft().producer_id] = None
        if header.last_offset < state.fetch_position:
            continue
        next_offset = header.last_offset + 1
        if header.is_control:
            if header.producer_id in state.aborted and _ends_aborted(buffer, header):
                del state.aborted[header.producer_id]
        elif not (header.is_transactional and header.producer_id in state.aborted):
            shown.append(header)
    if next_offset == state.fetch_position:
        return None
    size = sum(header.size for header in shown)
    return Chunk(buffer, shown, next_offset, size)


def _ends_aborted(buffer: Buffer, header: BatchHeader) -> bool:
    return control_type_of(buffer, header) is ControlType.ABORT
