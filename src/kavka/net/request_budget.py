"""What the requests of all connections may take, by reading only as fast as memory is given back.

Bytes count from their arrival until their request is answered: half-received requests, those that wait for their
turn, those in work, and answers that wait for earlier ones of their connection. Requests that wait for something else
(records of a long poll, replicas, the other members of a group) keep no frame, so they count no longer.

    free     everything is read
    tight    the bytes reach `limit_bytes`, or as many connections as `most_queued` have requests that wait for a turn
             or for the disk, or somebody waits already

A tight budget reads

- *small* requests (up to 32 KiB) of a connection without any other in work: heartbeats and metadata go on,
- of the half-received large requests, those that were *admitted*: in the order in which they came to wait, each by the
  bytes that it still lacks, as far as there is room; and one at least, because it can be finished by reading only,
  unless complete requests in work hold a quarter of the limit, which they will give back,
- other connections when nothing half-received waits and there is room.

So there is no deadlock, and the most that is held is the limit, a quarter of it, one request, and 36 KiB of each
connection.

A client that announces a large request and is silent would keep what it has. Therefore, while the budget is tight:

- An admitted request of which nothing comes for a tenth of `stall_ms` is not admitted any more, until more has come.
- Every `stall_ms`, half-received requests are looked at. One that was read, and of which fewer than 64 KiB have come
  since the last time, is closed with its connection, and so is one that was seen twelve times; for those that wait to
  be admitted for the first time this time does not count. (Twelve times ten seconds are the `delivery.timeout.ms` of a
  producer: it has given the request up itself.)
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from kavka.values import frozen

log = logging.getLogger(__name__)

SMALL_READ_BYTES: Final = 36 << 10
"""What a connection reads at once from a tight budget: a small request, or the beginning of a large one."""
_PROGRESS_BYTES: Final = 64 << 10
_MOST_ROUNDS: Final = 12
_TICKS: Final = 10
_LOG_EVERY_S: Final = 60.0


@frozen
class BudgetLimits:
    """Bounds of all connections together."""

    limit_bytes: int
    """At so many bytes reading stops; one request that is begun may still be finished."""
    most_queued: int = 500
    """At so many connections with requests that nobody has looked at, no other is read (`queued.max.requests`)."""
    stall_ms: int = 10_000
    """How long a half-received request may make no progress while the budget is tight."""


class Reader(Protocol):
    """A connection, as the budget sees it."""

    peer_host: str
    bytes_received: int

    @property
    def partial_bytes(self) -> int:
        """How many bytes of a request that is not complete have come."""
        ...

    @property
    def missing_bytes(self) -> int:
        """How many bytes a half-received large request lacks; 0 without one."""
        ...

    @property
    def bytes_in_work(self) -> int:
        """How many bytes complete requests hold."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether requests in work here are the reason for not reading."""
        ...

    def read_on(self) -> None:
        """Read again after `may_read` said no."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class _Progress:
    """What is noted of a half-received request."""

    __slots__ = ("begin", "received", "rounds", "was_admitted")

    def __init__(self, begin: int) -> None:
        self.begin = begin  # where in the stream the request begins
        self.received = (
            -1
        )  # bytes of the stream at the end of the last round; -1 when it was not read then
        self.rounds = 0
        self.was_admitted = False


def _put(table: dict[Reader, int], reader: Reader, number: int) -> int:
    """Keep the number of a connection, if it is not 0; return by how much it has grown."""
    before = table.get(reader, 0)
    if number:
        table[reader] = number
    elif before:
        del table[reader]
    return number - before


class RequestBudget:
    """Decides which connections are read. All calls come from the loop's thread."""

    def __init__(self, limits: BudgetLimits) -> None:
        """Begin with no connection."""
        self.limits = limits
        self.held_bytes = 0  # Invariant: the sum of _held
        self._work_bytes = 0  # what of that complete requests hold. Invariant: the sum of _work
        self.queued = 0
        self.is_tight = False
        """Whether `may_read` must be asked before each read."""
        self.closed_stalled = 0
        """How many connections were closed because their request made no progress."""
        self._held: dict[Reader, int] = {}
        self._work: dict[Reader, int] = {}
        # Half-received requests that are read to their end, with what they lack. Invariant: _reserved is the sum.
        self._admitted: dict[Reader, int] = {}
        self._reserved = 0
        # In the order in which they came to wait.
        self._waiting_frames: dict[Reader, None] = {}
        self._waiting: dict[Reader, None] = {}
        self._progress: dict[Reader, _Progress] = {}
        self._seen: dict[Reader, int] = {}  # bytes that admitted ones had received at the last tick
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._log_after_s = 0.0

    @property
    def waiting(self) -> int:
        """How many connections are not read because of the budget."""
        return len(self._waiting_frames) + len(self._waiting)

    def account(self, reader: Reader) -> None:
        """Learn how many bytes the requests of a connection hold now, and let others be read if that gives room."""
        work = reader.bytes_in_work
        self._work_bytes += _put(self._work, reader, work)
        self.held_bytes += _put(self._held, reader, work + reader.partial_bytes)
        if reader in self._admitted:
            self._reserve(reader, reader.missing_bytes)
        if reader in self._waiting and not work:
            del self._waiting[reader]
            reader.read_on()
        self._settle()

    def leave(self, reader: Reader) -> None:
        """Read a connection no more: it is closed. Requests of it that are in work still may hold bytes."""
        self._waiting.pop(reader, None)
        self._waiting_frames.pop(reader, None)
        self._progress.pop(reader, None)
        self._seen.pop(reader, None)
        if reader in self._admitted:
            self._reserve(reader, 0)
        self.account(reader)

    def queue(self, change: int) -> None:
        """Count a connection whose requests wait for their turn, or a request that waits for the disk."""
        self.queued += change
        self._settle()

    def may_read(self, reader: Reader) -> bool:
        """Tell whether a connection is read on; if not, `read_on` is called later. Ask only while `is_tight`."""
        if reader in self._admitted:
            return True
        missing = reader.missing_bytes
        if self.queued < self.limits.most_queued and not missing and not reader.bytes_in_work:
            return True
        self._note_wait()
        (self._waiting_frames if missing else self._waiting)[reader] = None
        self._settle(asking=reader)
        return reader not in self._waiting and reader not in self._waiting_frames

    # -- inside

    def _settle(self, asking: Reader | None = None) -> None:
        """Admit what there is room for; `asking` reads already."""
        limit = self.limits.limit_bytes
        is_queue_full = self.queued >= self.limits.most_queued
        while self._waiting_frames and not is_queue_full:
            reader = next(iter(self._waiting_frames))
            missing = reader.missing_bytes
            has_room = self.held_bytes + self._reserved + missing <= limit
            is_only_way = not self._admitted and self._work_bytes <= limit // 4
            if not has_room and not is_only_way:
                break
            del self._waiting_frames[reader]
            self._reserve(reader, missing)
            self._progress_of(reader).was_admitted = True
            if reader is not asking:
                reader.read_on()
        while self._waiting and not (is_queue_full or self._waiting_frames):
            if self.held_bytes + self._reserved >= limit:
                break
            reader = next(iter(self._waiting))
            del self._waiting[reader]
            if reader is not asking:
                reader.read_on()
        self.is_tight = (
            is_queue_full
            or self.held_bytes + self._reserved >= limit
            or bool(self._waiting_frames)
            or bool(self._waiting)
        )

    def _reserve(self, reader: Reader, missing: int) -> None:
        self._reserved += missing - self._admitted.pop(reader, 0)
        if missing:
            self._admitted[reader] = missing

    # -- requests that make no progress

    def _note_wait(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._tick_later(loop)
        now_s = loop.time()
        if now_s >= self._log_after_s:
            self._log_after_s = now_s + _LOG_EVERY_S
            what = "reading of requests slowed held_bytes=%d limit_bytes=%d queued=%d"
            log.warning(what, self.held_bytes, self.limits.limit_bytes, self.queued)

    def _tick_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self.limits.stall_ms / 1000 / _TICKS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self.is_tight:
            self._ticks = 0
            self._progress.clear()
            self._seen.clear()
            return
        self._tick_later(asyncio.get_running_loop())
        self._take_back()
        self._ticks += 1
        if self._ticks == _TICKS:
            self._ticks = 0
            self._close_stalled()

    def _take_back(self) -> None:
        """Take the admission of requests that are silent, for others to have it: they ask again when more has come."""
        seen, self._seen = self._seen, {}
        for reader in list(self._admitted):
            if seen.get(reader) == reader.bytes_received:
                self._reserve(reader, 0)
            else:
                self._seen[reader] = reader.bytes_received
        self._settle()

    def _close_stalled(self) -> None:
        """Close the connections whose half-received requests make no progress."""
        for reader in list(self._held):
            partial = reader.partial_bytes
            if partial and self._is_stalled(reader):
                self.closed_stalled += 1
                what = (
                    "connection closed peer=%s reason=of a request %d bytes have come and %d are "
                    "missing, it makes no progress, and others need its memory"
                )
                log.warning(what, reader.peer_host, partial, reader.missing_bytes)
                reader.abort()

    def _progress_of(self, reader: Reader) -> _Progress:
        """Return what is noted of a half-received request; nothing yet of one that has begun since."""
        begin = reader.bytes_received - reader.partial_bytes
        progress = self._progress.get(reader)
        if progress is None or progress.begin != begin:
            progress = self._progress[reader] = _Progress(begin)
        return progress

    def _is_stalled(self, reader: Reader) -> bool:
        progress = self._progress_of(reader)
        waits = reader in self._waiting_frames or reader in self._waiting
        if reader.is_busy or (waits and not progress.was_admitted):
            progress.received = -1
            return False
        came = reader.bytes_received - progress.received
        is_slow = progress.received >= 0 and came < _PROGRESS_BYTES and not waits
        progress.received = -1 if waits else reader.bytes_received
        progress.rounds += 1
        return is_slow or progress.rounds > _MOST_ROUNDS
