"""Warnings of an outage: the first at once, then one in ten seconds, not one for each attempt."""

from __future__ import annotations

import logging
from typing import Final

from kavka.io import Clock
from kavka.net.bounded_log import SpacedLog

_BETWEEN_MS: Final = 10_000


class OutageWarnings:
    """Warnings of one client, a `SpacedLog` for each thing that fails."""

    def __init__(self, clock: Clock) -> None:
        """Begin without any."""
        self._clock = clock
        self._logs: dict[str, SpacedLog] = {}

    def warn(self, log: logging.Logger, what: str, reason: object) -> None:
        """Log that something failed once more, for a reason, unless that was said less than ten seconds ago."""
        spaced = self._logs.get(what)
        if spaced is None:
            spaced = self._logs[what] = SpacedLog(log, _BETWEEN_MS, self._clock.tick_ms)
        if spaced.is_due():
            spaced.write("%s reason=%s", what, reason)
