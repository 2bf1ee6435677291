"""The memory budget of the requests of all connections: they are read only as fast as memory becomes free.

Bytes count from their arrival until their request is answered: half-received requests, queued ones,
those in work, and responses that wait for earlier ones of their connection, or for their client to read. Requests
that wait for another event (records of a long poll, replicas, the other members of a group) keep no frame, so they
count no longer.

    free     all connections are read
    tight    the bytes reach `limit_bytes`, or as many connections as `max_queued` have requests that wait to be handled
             or for the disk, or a connection waits already

A tight budget reads

- *small* requests (up to 32 KiB) of a connection without any other in work: heartbeats and metadata continue,
- of the half-received ones above that, those that were *admitted*, in the order in which they began to wait. Up to 1
MiB
  they are *medium*, and have an eighth of the limit reserved, so that those of ordinary producers do not queue
  behind large ones. *Large* ones are admitted, each by its missing bytes, as far as there is memory below the
  limit; and one at least, as it can be finished by reading only, as far as there is memory below `max_bytes`,
- other connections when no half-received request waits and there is memory.

No request is admitted while complete ones reach the limit: their memory is free when they are answered. `max_bytes` is
larger than the limit by the largest request and the bytes of one read. Memory beyond it is the eighth, and
36 KiB of each connection. So there is no deadlock: if no more is admitted, then because of requests in work, or of
half-received ones that were admitted before and made no progress, which are closed (`request_progress`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kavka.net.request_progress import TICKS, Progress, Reader
from kavka.values import frozen

log = logging.getLogger(__name__)

SMALL_READ_BYTES: Final = 36 << 10
"""Bytes that a connection reads at once from a tight budget: a small request, or the beginning of a large one."""
_LANE: Final = 8
"""Divisor of the limit for the share that is reserved for medium requests."""
_LOG_EVERY_S: Final = 60.0


@frozen
class BudgetLimits:
    """Bounds of all connections together."""

    limit_bytes: int
    """Bytes at which reading stops, except for requests that have begun, one after the other."""
    max_bytes: int
    """Maximum of the held bytes."""
    max_queued: int = 500
    """Number of connections with queued requests at which no other is read (`queued.max.requests`)."""
    stall_ms: int = 10_000
    """Milliseconds without progress after which a half-received request is closed while the budget is tight."""
    medium_bytes: int = 1 << 20
    """Up to this size a request does not queue behind larger ones."""


class _Lane:
    """Half-received requests of one kind: waiting and admitted ones."""

    __slots__ = ("admitted", "reserved", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Reader, None] = {}  # in the order in which they came to wait
        self.admitted: dict[Reader, int] = {}  # with the bytes that they lack
        self.reserved = 0  # Invariant: the sum of admitted

    def reserve(self, reader: Reader, missing: int) -> None:
        """Keep room for the bytes that an admitted request lacks; none ends its admission."""
        self.reserved += missing - self.admitted.pop(reader, 0)
        if missing:
            self.admitted[reader] = missing


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
        self.queued = 0
        self.is_tight = False
        """True if `may_read` must be called before each read."""
        self.held_bytes = 0  # Invariant: the sum of _held
        self._work_bytes = 0  # what complete requests hold of that. Invariant: the sum of _work
        self._held: dict[Reader, int] = {}
        self._work: dict[Reader, int] = {}
        self._medium, self._large = _Lane(), _Lane()
        self._waiting: dict[Reader, None] = {}  # those without a half-received request
        self._progress = Progress()
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._log_after_s = 0.0

    @property
    def waiting(self) -> int:
        """Return the number of connections that are not read because of the budget."""
        return len(self._medium.waiting) + len(self._large.waiting) + len(self._waiting)

    @property
    def closed_stalled(self) -> int:
        """Return the number of connections that were closed because a request made no progress."""
        return self._progress.closed

    def account(self, reader: Reader) -> None:
        """Update how many bytes the requests of a connection hold, and read on from others if that gives room."""
        work = reader.bytes_in_work
        self._work_bytes += _put(self._work, reader, work)
        self.held_bytes += _put(self._held, reader, work + reader.partial_bytes)
        medium, large = self._medium, self._large
        if not (self.is_tight or medium.admitted or large.admitted):
            if self.held_bytes >= self.limits.limit_bytes:
                self._settle()
            return  # nearly always: this is done for each request that is not answered at once
        for lane in (medium, large):
            if reader in lane.admitted:
                lane.reserve(reader, reader.missing_bytes)
        if reader in self._waiting and not work:
            del self._waiting[reader]
            reader.read_on()
        self._settle()

    def leave(self, reader: Reader) -> None:
        """Read a connection no more: it is closed. Requests of it that are in work still may hold bytes."""
        self._waiting.pop(reader, None)
        for lane in (self._medium, self._large):
            lane.waiting.pop(reader, None)
            if reader in lane.admitted:
                lane.reserve(reader, 0)
        self._progress.forget(reader)
        self.account(reader)

    def queue(self, change: int) -> None:
        """Count a connection with queued requests, or a request that waits for the disk."""
        self.queued += change
        if self.is_tight or self.queued >= self.limits.max_queued:
            self._settle()

    def may_read(self, reader: Reader) -> bool:
        """Return whether a connection is read on; if not, `read_on` is called later. Call only while `is_tight`."""
        missing = reader.missing_bytes
        is_medium = missing + reader.partial_bytes <= self.limits.medium_bytes
        lane = self._medium if is_medium else self._large
        if reader in lane.admitted:
            return True
        if self.queued < self.limits.max_queued and not missing and not reader.bytes_in_work:
            return True
        self._note_wait()
        waiting = lane.waiting if missing else self._waiting
        waiting[reader] = None
        self._settle(asking=reader)
        return reader not in waiting

    # -- inside

    def _settle(self, asking: Reader | None = None) -> None:
        """Admit what there is room for; `asking` reads already."""
        is_queue_full = self.queued >= self.limits.max_queued
        if not is_queue_full:
            self._admit(self._medium, self._may_admit_medium, asking)
            self._admit(self._large, self._may_admit_large, asking)
            if not self._medium.waiting and not self._large.waiting:
                self._admit_others(asking)
        self.is_tight = is_queue_full or bool(self.waiting) or self._room() <= 0

    def _admit(self, lane: _Lane, may_admit: Callable[[int], bool], asking: Reader | None) -> None:
        while lane.waiting:
            reader = next(iter(lane.waiting))
            missing = reader.missing_bytes
            if not may_admit(missing):
                return
            del lane.waiting[reader]
            lane.reserve(reader, missing)
            self._progress.admitted(reader)
            if reader is not asking:
                reader.read_on()

    def _admit_others(self, asking: Reader | None) -> None:
        while self._waiting and self._room() > 0:
            reader = next(iter(self._waiting))
            del self._waiting[reader]
            if reader is not asking:
                reader.read_on()

    def _room(self) -> int:
        """Return how many bytes may come below the limit."""
        reserved = self._medium.reserved + self._large.reserved
        return self.limits.limit_bytes - self.held_bytes - reserved

    def _room_to_finish(self) -> int:
        """Return how many bytes half-received requests may bring, so that they are finished."""
        if self._work_bytes >= self.limits.limit_bytes:
            return -1
        beginnings = SMALL_READ_BYTES * (len(self._medium.waiting) + len(self._large.waiting))
        above = self.limits.max_bytes - self.limits.limit_bytes
        return self._room() + above + min(beginnings, self.held_bytes)

    def _may_admit_medium(self, missing: int) -> bool:
        return missing <= self._room_to_finish() + self.limits.limit_bytes // _LANE

    def _may_admit_large(self, missing: int) -> bool:
        return missing <= (self._room() if self._large.admitted else self._room_to_finish())

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
        self._timer = loop.call_later(self.limits.stall_ms / 1000 / TICKS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self.is_tight:
            self._ticks = 0
            self._progress.clear()
            return
        self._tick_later(asyncio.get_running_loop())
        silent = self._progress.silent([*self._medium.admitted, *self._large.admitted])
        for reader in silent:
            for lane in (self._medium, self._large):
                if reader in lane.admitted:
                    lane.reserve(reader, 0)
        self._settle()
        self._ticks = (self._ticks + 1) % TICKS
        waiting = {**self._medium.waiting, **self._large.waiting, **self._waiting}
        if self._ticks == 0:
            self._progress.close_stalled(list(self._held), waiting)
            self._progress.close_unread(list(self._held))
        elif self._large.waiting and not self._large.admitted:
            self._progress.close_largest_silent(list(self._held), waiting)
