"""Durations: a sum and a histogram, shown as quantiles of the last minute or two.

A duration is a difference of a clock of whole milliseconds. One of 0.3 ms is 1 in three of ten times and 0 else, so
sums and means are right however short the durations are; quantiles are no finer than the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_EXACT = 64  # durations below this have a bucket each
_STEPS = 8  # buckets for each doubling above
_MAX_DURATION_MS = (1 << 27) - 1  # a day and a half
_BUCKETS = _EXACT + (27 - 6) * _STEPS

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Quantiles that Kafka shows."""


class Timings:
    """Durations in milliseconds. `turn_over` has to be called once a minute, else nothing is ever old."""

    __slots__ = ("_discarded", "_previous", "recent", "sum_ms")

    def __init__(self) -> None:
        """Begin with none."""
        self.sum_ms = 0
        self.recent = [0] * _BUCKETS
        """Counts of this minute; a caller with a duration of 0 may add to the first itself."""
        self._previous: list[int] | None = None
        self._discarded = 0

    def record(self, ms: int) -> None:
        """Count one."""
        self.sum_ms += ms
        self.recent[ms if 0 <= ms < _EXACT else _bucket(ms)] += 1

    @property
    def count(self) -> int:
        """Return the number of durations."""
        return self._discarded + sum(self.counts())

    def rotate(self) -> None:
        """Begin another minute; the one before the last is forgotten."""
        if self._previous is not None:
            self._discarded += sum(self._previous)
        self._previous, self.recent = self.recent, [0] * _BUCKETS

    def counts(self) -> list[int]:
        """Return how many of the last minute or two are in each bucket."""
        if self._previous is None:
            return self.recent
        return [new + old for new, old in zip(self.recent, self._previous, strict=True)]


def merged(timings: Iterable[Timings], zeros: int = 0) -> list[int]:
    """Return the buckets of several together, and of `zeros` more durations that took no time."""
    total = [0] * _BUCKETS
    for each in timings:
        total = [a + b for a, b in zip(total, each.counts(), strict=True)]
    total[0] += zeros
    return total


def quantiles(counts: Sequence[int], wanted: Sequence[float] = QUANTILES) -> list[int]:
    """Return the durations below which these shares of all are, within an eighth; 0 when there are none."""
    total = sum(counts)
    found: list[int] = []
    seen, bucket = 0, 0
    for quantile in wanted:  # ascending
        rank = quantile * total
        while bucket < _BUCKETS - 1 and seen + counts[bucket] < rank:
            seen += counts[bucket]
            bucket += 1
        found.append(_upper(bucket) if total else 0)
    return found


def _bucket(ms: int) -> int:
    if ms <= 0:
        return 0
    ms = min(ms, _MAX_DURATION_MS)
    doubling = ms.bit_length() - 7  # 64 to 127 are doubling 0
    return _EXACT + doubling * _STEPS + ((ms >> (doubling + 3)) & (_STEPS - 1))


def _upper(bucket: int) -> int:
    """Return the longest duration of a bucket."""
    if bucket < _EXACT:
        return bucket
    doubling, step = divmod(bucket - _EXACT, _STEPS)
    return ((_STEPS + step + 1) << (doubling + 3)) - 1
