"""The memory of half-received requests of clients that have not authenticated: bounded for all together.

One such client may have half a mebibyte (`sasl.server.max.receive.size`), because tokens may be large; ten thousand of
them together would have what belongs to those that may use the broker. Beyond the bound the connection that has most
is closed. Ordinary tokens come in one packet, and are never half-received.
"""

from __future__ import annotations

import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Partial(Protocol):
    """A connection with a half-received request."""

    @property
    def frame_bytes(self) -> int:
        """Return the memory that the half-received request takes."""
        ...

    @property
    def peer_host(self) -> str:
        """Return the client's address."""
        ...

    def abort(self) -> None:
        """Close the connection."""
        ...


class FrameShare:
    """Counts the memory of the connections that share it. All calls come from the loop's thread."""

    def __init__(self, max_bytes: int) -> None:
        """Begin with none; `max_bytes` bounds all connections together."""
        self._max_bytes = max_bytes
        self._held: dict[Partial, int] = {}
        self.held_bytes = 0  # Invariant: the sum of _held
        self.closed = 0
        """Connections that were closed because there were too many bytes."""

    def account(self, connection: Partial) -> None:
        """Count what a connection holds now, and close those that hold most while it is too much."""
        held = connection.frame_bytes
        self.held_bytes += held - self._held.pop(connection, 0)
        if held:
            self._held[connection] = held
        while self.held_bytes > self._max_bytes:
            largest = max(self._held, key=self._held.__getitem__)
            self.leave(largest)
            self.closed += 1
            if self.closed & (self.closed - 1) == 0:  # the first, the second, the fourth …
                what = "connection closed peer=%s reason=unauthenticated clients sent too much closed_so_far=%d"
                log.warning(what, largest.peer_host, self.closed)
            largest.abort()

    def leave(self, connection: Partial) -> None:
        """Count a connection no more."""
        self.held_bytes -= self._held.pop(connection, 0)
