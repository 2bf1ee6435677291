"""The cleaner's view of transactions while it walks a log (KIP-98; Kafka's `CleanedTransactionMetadata`).

    batch of an aborted transaction        its records go; the transaction was seen
    batch of another one                   its records are judged by their keys; the transaction was seen
    marker of a transaction that was seen  stays, and an ABORT keeps its entry in the index
    marker of one of which nothing is left gets a delete horizon, and goes when that has passed

A transaction of which only an empty batch is left was seen. Aborted transactions are known from the index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kavka.storage.segment.transaction_index import AbortedTransaction


class CleanedTransactions:
    """State of one walk. Every transactional batch must be passed, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are those that touch the offsets of the walk."""
        self._coming = deque(sorted(aborted, key=lambda one: one.first_offset))
        # By producer: the aborted transaction that is open here, and whether a batch of it was seen.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        self._retained: list[AbortedTransaction] = []

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Note a transactional batch of data; return whether its transaction was aborted."""
        self._open_up_to(last_offset)
        if producer_id in self._aborted:
            self._seen_aborted.add(producer_id)
            return True
        self._seen_committed.add(producer_id)
        return False

    def is_marker_idle(self, producer_id: int, last_offset: int, committed: bool) -> bool:
        """Note a marker; return whether no batch of its transaction was seen."""
        self._open_up_to(last_offset)
        if committed:
            was_seen = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return not was_seen
        ended = self._aborted.pop(producer_id, None)
        if producer_id not in self._seen_aborted:
            return True
        self._seen_aborted.discard(producer_id)
        assert ended is not None, "seen and not open"
        self._retained.append(ended)
        return False

    def take_retained(self) -> list[AbortedTransaction]:
        """Return the aborted transactions with retained markers, since the last call, in the order of the markers."""
        retained, self._retained = self._retained, []
        return retained

    def _open_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0].first_offset <= offset:
            transaction = coming.popleft()
            self._aborted[transaction.producer_id] = transaction
