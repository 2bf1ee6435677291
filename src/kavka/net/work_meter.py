"""The processor time that one connection takes of the event loop: of reading its bytes, and of sending to it.

An event is one call of the loop about the connection: bytes came, or its socket takes more. All of it counts: the
system call, the frames, the first stages of their requests, the sending of their responses. The clock is read at the
beginning, at the end, and wherever the time so far is asked for: reading it is a system call.

A connection has a meter only while its client has a quota of request time.
"""

from __future__ import annotations

from collections.abc import Callable


class WorkMeter:
    """The meter of one connection."""

    __slots__ = ("_began_ns", "_discards", "_mark_ns", "_work_ns", "charge", "in_event")

    def __init__(self, work_ns: Callable[[], int], charge: Callable[[int], None]) -> None:
        """Begin between two events; `charge` is given the nanoseconds of each that nobody took."""
        self._work_ns = work_ns
        self.charge = charge
        self.in_event = False
        """True during an event whose beginning was noted."""
        self._began_ns = self._mark_ns = 0
        self._discards = False

    def begin(self) -> None:
        """Note the time: an event begins, unless it turns out that there is nothing to do."""
        self._began_ns = self._work_ns()

    def enter(self) -> None:
        """Count from `begin` on."""
        self._mark_ns = self._began_ns
        self._discards = False
        self.in_event = True

    def take_ns(self) -> int:
        """Return the nanoseconds of this event that are not taken yet."""
        now = self._work_ns()
        taken, self._mark_ns = now - self._mark_ns, now
        return taken

    def discard(self) -> None:
        """Count nothing until `resume`, or the end of the event: what is done now is not charged."""
        self._discards = True

    def resume(self) -> None:
        """Count from now on, if nothing was counted."""
        if self._discards:
            self._discards = False
            self._mark_ns = self._work_ns()

    def leave(self) -> None:
        """End the event, and charge what is left of it."""
        if self.in_event:
            if not self._discards:
                self.charge(self.take_ns())
            self.in_event = False
