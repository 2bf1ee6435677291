"""Warnings of an outage: the first at once, then one in ten seconds, not one for each attempt."""

from __future__ import annotations

import logging
from typing import Final

from kavka.io import Clock

_EVERY_MS: Final = 10_000


class OutageWarnings:
    """Warnings of one client by what failed; those that are left out are counted in the next one."""

    def __init__(self, clock: Clock) -> None:
        """Begin without any."""
        self._clock = clock
        self._last: dict[str, tuple[int, int]] = {}
        """By what failed: the time of the last warning, and how many were left out since."""

    def warn(self, log: logging.Logger, what: str, reason: object) -> None:
        """Log that something failed once more, for a reason, unless that was said less than ten seconds ago."""
        now_ms = self._clock.tick_ms()
        last = self._last.get(what)
        if last is not None and now_ms - last[0] < _EVERY_MS:
            self._last[what] = last[0], last[1] + 1
            return
        self._last[what] = now_ms, 0
        if last is None or last[1] == 0:
            log.warning("%s reason=%s", what, reason)
        else:
            log.warning("%s reason=%s repeated=%d", what, reason, last[1])
