"""Decisions of a continuous run: when a failed flow starts again, and when a view is refreshed. Pure.

started --fails--> waiting for its back-off --due--> started
   |                                                    |
   +--has made a batch: the back-off begins from its first step again
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

FLOWS_AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""Flows that start at the same time. Each starts a process of Python, for which Spark waits ten seconds, whatever the
settings: on a busy machine many at once come too late ("Python worker failed to connect back")."""
FIRST_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 60_000


@dataclass(slots=True)
class _Flow:
    failures: int = 0
    """Failures since the last batch."""
    due_ms: int | None = None
    """Time of its next start; None while it runs."""


class Restarts:
    """The starts of flows: each flow alone, so that the failures of one delay no other."""

    def __init__(self, flows: Iterable[str], now_ms: int) -> None:
        """Schedule every flow for now."""
        self._flows = {name: _Flow(due_ms=now_ms) for name in flows}

    def due(self, now_ms: int, count: int | None = None) -> list[str]:
        """Return the flows to start now, in their order, not more than `count`; they count as started."""
        due = [
            name
            for name, flow in self._flows.items()
            if flow.due_ms is not None and flow.due_ms <= now_ms
        ]
        names = due if count is None else due[: max(count, 0)]
        for name in names:
            self._flows[name].due_ms = None
        return names

    def failed(self, name: str, now_ms: int) -> int:
        """Record a failure and return the back-off in milliseconds: 1 s, doubled up to a minute."""
        flow = self._flows[name]
        wait_ms = min(FIRST_BACKOFF_MS << min(flow.failures, 10), MAX_BACKOFF_MS)
        flow.failures += 1
        flow.due_ms = now_ms + wait_ms
        return wait_ms

    def record_batch(self, name: str) -> None:
        """Record a completed batch of a flow, which resets its back-off."""
        if name in self._flows:
            self._flows[name].failures = 0


@dataclass(slots=True)
class RefreshSchedule:
    """Decides on refreshes of materialized views: an interval after the end of the last one, and only when needed.

    Views are refreshed together, in the order of the graph, because one may read another.
    """

    interval_ms: int
    due_ms: int = 0
    failures: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    """The last batch of each flow at the last refresh."""

    def is_due(self, now_ms: int, batches: dict[str, int]) -> bool:
        """Return whether to refresh: it is time, and a flow has made a batch since; the first time in any case."""
        return now_ms >= self.due_ms and (
            batches != self.seen or not self.due_ms or bool(self.failures)
        )

    def refreshed(self, now_ms: int, batches: dict[str, int], *, failed: bool) -> None:
        """Record a refresh that started at these `batches` of flows; failures double the back-off, up to a minute."""
        self.failures = self.failures + 1 if failed else 0
        wait_ms = self.interval_ms
        if self.failures:
            wait_ms = max(wait_ms, min(FIRST_BACKOFF_MS << min(self.failures, 10), MAX_BACKOFF_MS))
        self.due_ms = now_ms + max(wait_ms, 1)
        self.seen = dict(batches)
