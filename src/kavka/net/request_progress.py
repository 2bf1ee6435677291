"""Half-received requests without progress, while others need their memory.

A client that announces a large request and sends no more would keep its memory. While the budget of all requests is
tight:

- An admitted request without a byte for a tenth of the stall time is not admitted any more, until more bytes
  arrive. If a large request waits then and none can be admitted, the stalled one with most memory is closed.
- At the end of each stall time, a request that was read, and got fewer than 64 KiB in it, is closed, and
  so is one that was seen twelve times. For those that wait to be admitted for the first time this time does not count.
  (Twelve times ten seconds are the `delivery.timeout.ms` of a producer: it has given the request up itself.)
- So is a connection with a client that has read fewer than 64 KiB of its responses in such a time, and not the last.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final, Protocol

log = logging.getLogger(__name__)

TICKS: Final = 10
"""Number of checks of admitted requests in the stall time."""
_PROGRESS_BYTES: Final = 64 << 10
_MAX_ROUNDS: Final = 12


class Reader(Protocol):
    """A connection, as the budget sees it."""

    peer_host: str
    bytes_received: int

    @property
    def partial_bytes(self) -> int:
        """Return the received bytes of an incomplete request."""
        ...

    @property
    def missing_bytes(self) -> int:
        """Return the missing bytes of a half-received large request; 0 without one."""
        ...

    @property
    def bytes_in_work(self) -> int:
        """Return the bytes of complete requests."""
        ...

    @property
    def bytes_unsent(self) -> int:
        """Return the bytes of responses that wait for the client to read them."""
        ...

    @property
    def bytes_sent(self) -> int:
        """Return the bytes of responses that the client has read."""
        ...

    @property
    def is_busy(self) -> bool:
        """Return whether requests in work are the reason for not reading."""
        ...

    def read_on(self) -> None:
        """Read again after `may_read` said no."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class _Seen:
    """Progress of a half-received request."""

    __slots__ = ("begin", "is_silent", "received", "rounds", "tick_received", "was_admitted")

    def __init__(self, begin: int) -> None:
        self.begin = begin  # where in the stream the request begins
        self.received = (
            -1
        )  # how far the stream was at the end of the last round; -1 if it was not read
        self.tick_received = -1  # how far it was at the last tick of its admission
        self.rounds = 0
        self.was_admitted = False
        self.is_silent = False


class Progress:
    """Notes how half-received requests come on, and closes the connections of those that do not."""

    def __init__(self) -> None:
        """Begin with none."""
        self.closed = 0
        self._seen: dict[Reader, _Seen] = {}
        self._sent: dict[Reader, int] = {}
        """Of connections with unread responses, how many bytes were sent at the end of the last round."""

    def admitted(self, reader: Reader) -> None:
        """Note that a half-received request is read on."""
        seen = self._of(reader)
        seen.was_admitted, seen.is_silent, seen.tick_received = True, False, -1

    def silent(self, admitted: Iterable[Reader]) -> list[Reader]:
        """Return the admitted ones of which nothing has come since they were last asked for."""
        found = []
        for reader in admitted:
            seen = self._of(reader)
            seen.is_silent = seen.tick_received == reader.bytes_received
            seen.tick_received = reader.bytes_received
            if seen.is_silent:
                found.append(reader)
        return found

    def close_largest_silent(self, held: Iterable[Reader], waiting: Collection[Reader]) -> None:
        """Close the request that holds most of those that were silent when they were admitted."""
        silent = [
            reader
            for reader in held
            if reader in self._seen
            and reader not in waiting
            and not reader.is_busy
            and self._of(reader).is_silent
        ]
        if silent:
            self._close(max(silent, key=lambda reader: reader.partial_bytes))

    def close_stalled(self, held: Iterable[Reader], waiting: Collection[Reader]) -> None:
        """End a round: close those that made no progress in it, or are here for too many."""
        for reader in held:
            if reader.partial_bytes and self._is_stalled(reader, waits=reader in waiting):
                self._close(reader)

    def close_unread(self, held: Iterable[Reader]) -> None:
        """End a round: close connections with clients that do not read their responses."""
        before, self._sent = self._sent, {}
        for reader in held:
            if not reader.bytes_unsent:
                continue
            sent = self._sent[reader] = reader.bytes_sent
            if reader in before and sent - before[reader] < _PROGRESS_BYTES:
                self.closed += 1
                what = (
                    "connection closed peer=%s reason=the client does not read its responses, of which %d bytes "
                    "wait, and others need their memory"
                )
                log.warning(what, reader.peer_host, reader.bytes_unsent)
                reader.abort()

    def forget(self, reader: Reader) -> None:
        """Forget a connection."""
        self._seen.pop(reader, None)
        self._sent.pop(reader, None)

    def clear(self) -> None:
        """Drop all: no request needs their memory."""
        self._seen.clear()
        self._sent.clear()

    # -- inside

    def _of(self, reader: Reader) -> _Seen:
        begin = reader.bytes_received - reader.partial_bytes
        seen = self._seen.get(reader)
        if seen is None or seen.begin != begin:
            seen = self._seen[reader] = _Seen(begin)
        return seen

    def _is_stalled(self, reader: Reader, *, waits: bool) -> bool:
        seen = self._of(reader)
        if reader.is_busy or (waits and not seen.was_admitted):
            seen.received = -1
            return False
        came = reader.bytes_received - seen.received
        is_slow = seen.received >= 0 and came < _PROGRESS_BYTES and not waits
        seen.received = -1 if waits else reader.bytes_received
        seen.rounds += 1
        return is_slow or seen.rounds > _MAX_ROUNDS

    def _close(self, reader: Reader) -> None:
        self.closed += 1
        what = (
            "connection closed peer=%s received_bytes=%d missing_bytes=%d "
            "reason=its half-received request makes no progress, and others need its memory"
        )
        log.warning(what, reader.peer_host, reader.partial_bytes, reader.missing_bytes)
        reader.abort()
