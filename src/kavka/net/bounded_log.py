"""Lines of the log that may be caused very often: a client in a loop must not fill the disk.

BoundedLog    about clients: a few a minute of each address; what is left out is named in one line a minute
SpacedLog     about one thing: a line in a while; the next one says how many were left out
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 60.0
LINES: Final = 5
"""Of one address in a window."""
_MAX_LINES: Final = 100
"""Of all addresses in a window: an attacker may have many."""
_NAMED: Final = 5
"""Addresses that the line about what was left out names."""


class BoundedLog:
    """Logs lines about clients by their addresses."""

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        """Write to `log` at a level."""
        self._log = log
        self._level = level
        self._logged: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._lines = 0
        self._timer: asyncio.TimerHandle | None = None

    def write(
        self, host: str, text: str, *facts: object, exc_info: BaseException | None = None
    ) -> None:
        """Log a line about a client at `host`, or count it. To be called in a running loop."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)
        if self._logged[host] >= LINES or self._lines >= _MAX_LINES:
            self._left_out[host if host in self._logged else "others"] += 1
            return
        self._logged[host] += 1
        self._lines += 1
        self._log.log(self._level, text, *facts, exc_info=exc_info)

    def _end_window(self) -> None:
        self._timer = None
        left_out, self._left_out, self._lines = self._left_out, Counter(), 0
        self._logged = Counter()
        if left_out:
            named = " ".join(f"{host}={count}" for host, count in left_out.most_common(_NAMED))
            what = "warnings about clients left out in a minute count=%d addresses=%d most: %s"
            self._log.log(self._level, what, left_out.total(), len(left_out), named)


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


class SpacedLog:
    """Logs a warning only when so much time has passed since the last one."""

    def __init__(
        self,
        log: logging.Logger,
        between_ms: int,
        tick_ms: Callable[[], int] = _loop_ms,
    ) -> None:
        """Warn in `log`; the time is that of the running loop, unless there is a clock."""
        self._log = log
        self._tick_ms = tick_ms
        self._between_ms = between_ms
        self._logged_ms: int | None = None
        self._left_out = 0

    def is_due(self) -> bool:
        """Return whether a line may be written now; if not, count that it is left out."""
        now_ms = self._tick_ms()
        if self._logged_ms is not None and now_ms - self._logged_ms < self._between_ms:
            self._left_out += 1
            return False
        self._logged_ms = now_ms
        return True

    def write(self, text: str, *facts: object) -> None:
        """Log the line for which `is_due` was true, with the number of those left out before."""
        if self._left_out:
            text, facts = f"{text} not_logged_since_last=%d", (*facts, self._left_out)
            self._left_out = 0
        self._log.warning(text, *facts)
