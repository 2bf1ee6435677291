"""The processor time of the event loop that one request takes, for the quota of request time.

It is measured only for clients that have such a quota. In an event of its connection (`net.work_meter`) it has the time
of that event so far, and the rest is charged at the event's end. It runs also in each later step: a step of a second
stage, the building and sending of a response that waited. What a request waits for takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kavka.net.work_meter import WorkMeter

T = TypeVar("T")


class LoopTime:
    """A stopwatch, which may be started again while it runs."""

    __slots__ = ("_began_ns", "_charge", "_charged_ns", "_depth", "_meter", "_taken_ns", "account")

    def __init__(self, meter: WorkMeter, account: Any) -> None:
        """Begin stopped; `meter` is that of the request's connection, `account` what the quotas charge."""
        self._meter = meter
        self.account = account
        self._depth = 0
        self._began_ns = 0
        self._taken_ns = 0
        self._charged_ns = 0
        self._charge: Callable[[int], None] | None = None

    @property
    def in_event(self) -> bool:
        """Return whether the connection's meter counts for it now."""
        return self._meter.in_event

    def resume(self) -> None:
        """Run, until as many calls of `pause` have followed."""
        meter = self._meter
        if meter.in_event:
            if meter.discards:
                meter.resume()
        elif not self._depth:
            self._began_ns = meter.work_ns()
        self._depth += 1

    def pause(self) -> None:
        """Stop, unless it was started more than once."""
        self._depth -= 1
        if not self._depth and self._began_ns:
            self._taken_ns += self._meter.work_ns() - self._began_ns
            self._began_ns = 0
            if self._charge is not None:
                self._charge(self.take_ns())

    def discard(self) -> None:
        """Count nothing of what follows in this event."""
        self._meter.discard()

    def take_ns(self) -> int:
        """Return the nanoseconds since the last call."""
        taken = self._taken_ns
        if self._began_ns:
            taken += self._meter.work_ns() - self._began_ns
        since, self._charged_ns = taken - self._charged_ns, taken
        return since + self._meter.take_ns() if self._meter.in_event else since

    def charge_rest(self, charge: Callable[[int], None]) -> None:
        """Call `charge` with each further piece of time: the response is on its way."""
        self._charge = charge


class TimedWork(Coroutine[Any, Any, T]):
    """A coroutine, in each of whose steps a stopwatch runs."""

    __slots__ = ("_time", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], time: LoopTime) -> None:
        """Begin with no step."""
        self._work = work
        self._time = time

    def send(self, value: Any) -> Any:
        """Do a step."""
        self._time.resume()
        try:
            return self._work.send(value)
        finally:
            self._time.pause()

    def throw(self, *error: Any) -> Any:
        """Do a step that begins with an error."""
        self._time.resume()
        try:
            return self._work.throw(*error)
        finally:
            self._time.pause()

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        """Do all steps, untimed: a task calls `send`."""
        return self._work.__await__()
