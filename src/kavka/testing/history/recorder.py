"""Takes down what processes do, from any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import IO

from kavka.testing.history.lines import write_event
from kavka.testing.history.operations import Action, Event, Type


class Recorder:
    """A history in the making. The order of its events is the order in which threads came here."""

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, sink: IO[str] | None = None
    ) -> None:
        """Count times from now. Events also go to `sink`, a text file, if there is one."""
        self.events: list[Event] = []
        self._now_ns = now_ns
        self._sink = sink
        self._began_ns = now_ns()
        self._next = 0
        self._lock = threading.Lock()

    def invoke(self, process: str, action: Action) -> int:
        """Record the start of an operation, before it starts; return its number for `complete`."""
        with self._lock:
            number = self._next
            self._next += 1
            self._add(number, process, Type.INVOKE, action, None)
            return number

    def complete(
        self, number: int, process: str, outcome: Type, action: Action, error: str | None = None
    ) -> None:
        """Record the end of an operation, after it has ended."""
        with self._lock:
            self._add(number, process, outcome, action, error)

    def happened(self, process: str, action: Action) -> None:
        """Record an instantaneous operation: an assignment, a seek, a rebalance, the start of a transaction."""
        with self._lock:
            number = self._next
            self._next += 1
            self._add(number, process, Type.OK, action, None)

    def now_ns(self) -> int:
        """Return the time of an event that would be taken down now."""
        return self._now_ns() - self._began_ns

    def _add(
        self, number: int, process: str, outcome: Type, action: Action, error: str | None
    ) -> None:
        event = Event(number, process, outcome, self.now_ns(), action, error)
        self.events.append(event)
        if self._sink is not None:
            write_event(self._sink, event)
