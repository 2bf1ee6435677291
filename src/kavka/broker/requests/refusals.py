"""Counters of the requests that close their connection, and of the connections that are refused; their warnings.

refused   the client's doing: what it sent is not understood, or more than a bound allows
failed    the broker's: a disk, the registry or a fault of its own kept it from answering

Warnings are a few a minute of each address: a client in a loop must not fill the disk. What is left out is counted, and
named in one line a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from enum import StrEnum
from typing import Final

from kavka.wire.apis import ApiKey

WINDOW_S: Final = 60.0
LINES: Final = 5
"""Of one address in a window."""
_MAX_LINES: Final = 100
"""Of all addresses in a window: an attacker may have many."""
_NAMED: Final = 5
"""Addresses that the line about what was left out names."""


class RefusalReason(StrEnum):
    """The reason for which a request was refused, as the metrics name it."""

    FRAME_SIZE = "frame_size"
    """The size is negative, above `socket.request.max.bytes`, or not that of a frame of Kafka's protocol."""
    CORRUPT = "corrupt"
    """The request does not decode."""
    UNSUPPORTED = "unsupported_version"
    """The API or version is not served."""
    UNAUTHENTICATED = "unauthenticated"
    """The client has not authenticated."""
    EXPIRED = "session_expired"
    """The client has not authenticated again in time (`connections.max.reauth.ms`)."""
    DECODED_SIZE = "decoded_size"
    """Decoded, it takes too much memory (`kavka.request.decoded.max.bytes`)."""
    COUNT = "count"
    """The request names too many items."""
    RESPONSE_SIZE = "response_size"
    """The response is too large (`kavka.response.max.bytes`)."""


class FailureReason(StrEnum):
    """The reason for which a request was given up, as the metrics name it."""

    IO_ERROR = "io_error"
    """A disk, the registry or another broker failed."""
    INTERNAL_ERROR = "internal_error"
    """A fault of the broker."""


UNKNOWN_API: Final = "Unknown"
"""In place of an API's name, where a frame was refused before its API was read."""


class Refusals:
    """The counters of one broker since its start."""

    __slots__ = ("connections", "failed", "refused")

    def __init__(self) -> None:
        """Begin with none."""
        self.refused: Counter[tuple[ApiKey | None, RefusalReason]] = Counter()
        self.failed: Counter[tuple[ApiKey, FailureReason]] = Counter()
        self.connections: Counter[str] = Counter()
        """Connections refused, by the setting that limits them."""


def api_of(frame: memoryview) -> ApiKey | None:
    """Return the API that a frame names; None where it names none that there is."""
    try:
        return ApiKey(int.from_bytes(frame[:2], "big", signed=True))
    except ValueError:
        return None


class BoundedLog:
    """Logs warnings about clients by their addresses."""

    def __init__(self, log: logging.Logger) -> None:
        """Write to `log`."""
        self._log = log
        self._logged: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._lines = 0
        self._timer: asyncio.TimerHandle | None = None

    def warning(self, host: str, text: str, *facts: object) -> None:
        """Log a warning about a client at `host`, or count it."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)
        if self._logged[host] >= LINES or self._lines >= _MAX_LINES:
            self._left_out[host if host in self._logged else "others"] += 1
            return
        self._logged[host] += 1
        self._lines += 1
        self._log.warning(text, *facts)

    def _end_window(self) -> None:
        self._timer = None
        left_out, self._left_out, self._lines = self._left_out, Counter(), 0
        self._logged = Counter()
        if left_out:
            named = " ".join(f"{host}={count}" for host, count in left_out.most_common(_NAMED))
            what = "warnings about clients left out in a minute count=%d addresses=%d most: %s"
            self._log.warning(what, left_out.total(), len(left_out), named)
