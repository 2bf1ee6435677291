"""Producers with a batch that was refused a moment ago for a transient reason.

An idempotent producer has several batches in flight. When the first is refused because the broker does not lead yet,
or lacks replicas in sync, and the reason passes before the second arrives, the second has a gap before it. After
OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka takes a new producer epoch for all partitions, and a batch whose acknowledgement
another partition could not send is written twice (its issue 4953). A producer that is not known may begin anywhere,
so there the second would be accepted, and the first lost (decision 007). So batches behind a refused one get the same
error, until that batch has been sent again, or two seconds are over.
"""

from __future__ import annotations

from kavka.errors import ErrorCode

REMEMBERED_MS = 2000
_MAX_PRODUCERS = 1000


class RecentRefusals:
    """Recent refusals by producer id, with their expiry. Of one partition; bounded."""

    def __init__(self) -> None:
        """Start without refusals."""
        self._reasons: dict[int, tuple[ErrorCode, int]] = {}

    def __len__(self) -> int:
        """Return of how many producers something may be remembered."""
        return len(self._reasons)

    def note(self, producer_id: int, reason: ErrorCode, now_ms: int) -> None:
        """Remember that a batch was refused; beyond a thousand producers the oldest is forgotten."""
        self._reasons.pop(producer_id, None)
        if len(self._reasons) >= _MAX_PRODUCERS:
            del self._reasons[next(iter(self._reasons))]
        self._reasons[producer_id] = (reason, now_ms + REMEMBERED_MS)

    def forget(self, producer_id: int) -> None:
        """Remove a producer's refusal: the batch has come again."""
        self._reasons.pop(producer_id, None)

    def reason(self, producer_id: int, now_ms: int) -> ErrorCode | None:
        """Return why a batch of this producer was refused less than two seconds ago."""
        found = self._reasons.get(producer_id)
        if found is None:
            return None
        reason, until_ms = found
        if now_ms < until_ms:
            return reason
        del self._reasons[producer_id]
        return None
