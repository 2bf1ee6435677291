"""The clocks of a node: one that people set, one that only runs."""

from __future__ import annotations

import contextvars

from kavka.simulation.loop import SimLoop
from kavka.simulation.process import Process

EPOCH_MS = 1_700_000_000_000
"""Wall clock of a node without drift at virtual time 0."""


class SimClock:
    """A node's `io.Clock`; the wall clock drifts and jumps, the monotonic one starts anywhere and never goes back."""

    def __init__(self, loop: SimLoop, *, drift: float = 0.0, origin_ms: int = 0) -> None:
        """Run `1 + drift` wall seconds in a second; `origin_ms` is the monotonic clock's start."""
        self._loop = loop
        self._drift = drift
        self._origin_ms = origin_ms
        self._offset_ms = 0.0
        self._ahead_s = 0.0

    def now_ms(self) -> int:
        """Return milliseconds since 1970 by the wall clock of the node."""
        now_s = self._loop.now_s + self._ahead_s
        return int(EPOCH_MS + self._offset_ms + now_s * 1000 * (1 + self._drift))

    def tick_ms(self) -> int:
        """Return milliseconds since an origin of the node's own."""
        return int(self._origin_ms + (self._loop.now_s + self._ahead_s) * 1000)

    def work_ns(self) -> int:
        """Return the monotonic clock in nanoseconds: no time passes within a step."""
        return self.tick_ms() * 1_000_000

    def jump(self, by_ms: float) -> None:
        """Set the wall clock forward, or back when `by_ms` is negative."""
        self._offset_ms += by_ms

    def stall(self, process: Process, seconds: float) -> None:
        """Delay a blocking call of `process`: the clocks move on within the step, everything after it waits."""
        self._ahead_s += seconds
        process.pause()
        self._loop.call_later(
            seconds, self._end_stall, process, seconds, context=contextvars.Context()
        )

    def _end_stall(self, process: Process, seconds: float) -> None:
        self._ahead_s -= seconds
        process.resume()
