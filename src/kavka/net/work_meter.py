"""The processor time that one connection takes of the event loop: of reading its bytes, and of sending to it.

An event is one call of the loop about the connection: bytes came, its socket takes more, a throttle is over. All of it
counts: the system call, the frames, the first stages of their requests, the sending of their responses. The clock is
read at the beginning, at the end, and wherever the time so far is asked for: reading it is a system call.

    |-- select, dispatch --|-- event of A --|-- dispatch --|-- event of B --|-- select ...
                           begin            leave          begin            leave

What the loop itself does for an event counts as well: to wait, to wake up, to dispatch it, to read this clock. It is
all that lies behind the event before, if no other work was noted there. Otherwise it is what that takes on the average:
this is measured in one of sixteen iterations, where nothing of others lies between.

A connection has a meter only while its client has a quota of request time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

_EVERY: Final = 16
_READS: Final = 4
"""Of the clock, in a sample."""
_WEIGHT: Final = 32
_MAX_OWED_NS: Final = 1_000_000
_MAX_BEFORE_NS: Final = 200_000
"""Before an event: more is not the loop's own."""

T = TypeVar("T")


class _Mean:
    """The mean of durations, of which the last ones count most."""

    __slots__ = ("_count", "ns")

    def __init__(self) -> None:
        self._count = 0
        self.ns = 0.0

    def add(self, ns: float) -> None:
        self._count = min(self._count + 1, _WEIGHT)
        self.ns += (ns - self.ns) / self._count


class LoopClock:
    """The clock of all meters of one loop, and what the loop does for an event besides the event itself.

    Implements `event_loop.WaitSampler`.
    """

    __slots__ = (
        "_count",
        "_dispatch",
        "_ended",
        "_had_one",
        "_is_clean",
        "_noted",
        "_read",
        "_tail",
        "_wait",
        "_woke_ns",
        "_works",
        "ended_ns",
        "work_ns",
    )

    def __init__(self, work_ns: Callable[[], int], works: Collection[object] = ()) -> None:
        """Begin without a sample; `works` are those that were noted in this iteration (`LoopIterations.works`)."""
        self.work_ns = work_ns
        self._works = works
        self._noted = 0  # of these, what was noted before the last event ended
        self._is_clean = False  # nothing was noted since then, in the iterations before
        self.ended_ns = 0
        """The end of the last event."""
        self._ended = False  # an event has ended in this iteration
        self._had_one = False  # this iteration has one event, and nothing else
        self._count = 0
        self._woke_ns = 0  # the end of a wait for one event, before the event begins
        self._tail, self._wait, self._dispatch, self._read = _Mean(), _Mean(), _Mean(), _Mean()

    def sample(self, wait: Callable[[], list[T]], *, is_alone: bool) -> list[T]:
        """Wait for events, in one of sixteen calls with the clock; `is_alone` if nothing else is to be done then."""
        follows_one = is_alone and self._had_one and self._ended
        self._woke_ns, self._ended = 0, False
        self._count += 1
        ready = wait() if self._count % _EVERY else self._measured(wait, follows_one=follows_one)
        self._had_one = is_alone and len(ready) == 1
        if self._had_one and not self._count % _EVERY:
            self._woke_ns = self.work_ns()
        return ready

    def _measured(self, wait: Callable[[], list[T]], *, follows_one: bool) -> list[T]:
        began = self.work_ns()
        if follows_one:
            self._tail.add(began - self.ended_ns)
        ready = wait()
        ended = self.work_ns()
        self._read.add(self.work_ns() - ended)
        if ready:
            self._wait.add((ended - began) / len(ready))
        return ready

    def end_iteration(self) -> None:
        """See `event_loop.WaitSampler`."""
        if len(self._works) > self._noted:
            self._is_clean = False
        self._noted = 0

    def end(self) -> int:
        """Return the time, which is the end of an event."""
        self._ended = self._is_clean = True
        self._noted = len(self._works)
        self.ended_ns = self.work_ns()
        return self.ended_ns

    def begin_ns(self) -> int:
        """Return when an event that begins now began for the loop."""
        now = self.work_ns()
        if self._woke_ns:
            self._dispatch.add(now - self._woke_ns)
            self._woke_ns = 0
        if self._is_clean and len(self._works) <= self._noted:
            return max(self.ended_ns, now - _MAX_BEFORE_NS)
        reads = self._read.ns * (1 + _READS / _EVERY)
        before = int(self._tail.ns + self._wait.ns + self._dispatch.ns + reads)
        return max(self.ended_ns, now - before)


class WorkMeter:
    """The meter of one connection."""

    __slots__ = ("_began_ns", "_clock", "_mark_ns", "_owed_ns", "charge", "discards", "in_event")

    def __init__(self, clock: LoopClock, charge: Callable[[int], None]) -> None:
        """Begin between two events; `charge` is given what is owed, where no request takes it soon."""
        self._clock = clock
        self.charge = charge
        self.in_event = False
        """True during an event whose beginning was noted."""
        self._began_ns = self._mark_ns = 0
        self.discards = False
        self._owed_ns = 0  # of the ends of events

    def work_ns(self) -> int:
        """Return the time."""
        return self._clock.work_ns()

    def begin(self) -> None:
        """Note the time: an event begins, unless it turns out that there is nothing to do."""
        self._began_ns = self._clock.begin_ns()

    def enter(self) -> None:
        """Count from `begin` on."""
        self._mark_ns = self._began_ns
        self.discards = False
        self.in_event = True

    @contextmanager
    def event(self) -> Iterator[None]:
        """Count the body as an event."""
        self.begin()
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def take_ns(self) -> int:
        """Return the nanoseconds of this event, and of events before, that are not taken yet."""
        now = self._clock.work_ns()
        taken, self._mark_ns = now - self._mark_ns + self._owed_ns, now
        self._owed_ns = 0
        return taken

    def discard(self) -> None:
        """Count nothing until `resume`, or the end of the event: what is done now is not charged."""
        self.discards = True

    def resume(self) -> None:
        """Count from now on, if nothing was counted."""
        if self.discards:
            self.discards = False
            self._mark_ns = self._clock.work_ns()

    def leave(self) -> None:
        """End the event; what is left of it is charged with the next request."""
        if not self.in_event:
            return
        self.in_event = False
        now = self._clock.end()
        if not self.discards:
            self._owed_ns += now - self._mark_ns
            if self._owed_ns > _MAX_OWED_NS:
                owed, self._owed_ns = self._owed_ns, 0
                self.charge(owed)
