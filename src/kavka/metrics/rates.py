"""Rates of counters over the last half minute or minute, as Kafka's `-rate` attributes beside their totals."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

_KEPT = 6


class _Moment(NamedTuple):
    at_ms: int
    totals: Mapping[tuple[str, str], float]


class Rates:
    """Remembers totals, by name and labels, of the last six turns."""

    def __init__(self, now_ms: int) -> None:
        """Begin with zeros."""
        self._moments: deque[_Moment] = deque([_Moment(now_ms, {})], _KEPT)

    def turn(self, now_ms: int, totals: Mapping[tuple[str, str], float]) -> None:
        """Remember the totals as they are now; to be called every ten seconds."""
        self._moments.append(_Moment(now_ms, totals))

    def per_second(
        self, name: str, labels: str, total: float, now_ms: int, turns: int = 3
    ) -> float:
        """Return how fast a total grows, over the last turns; it was 0 where it was not remembered."""
        before = self._moments[max(0, len(self._moments) - turns)]
        passed_ms = now_ms - before.at_ms
        grown = total - before.totals.get((name, labels), 0)
        return grown * 1000 / passed_ms if passed_ms > 0 else 0.0
