"""The purgatory: `core.delayed_operations` with one timer of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar

from kavka.broker.requests.pace import SLICE_MS
from kavka.core.delayed_operations import DelayedOperations, WatchedOperation
from kavka.io import Clock


class DelayedOperation(Protocol):
    """A request that waits; `wake` is called once, when it is complete or its time is over."""

    def is_complete(self) -> bool:
        """Return whether there is nothing left to wait for."""
        ...

    def wake(self) -> None:
        """Respond with what there is now."""
        ...


K = TypeVar("K", bound=Hashable)


class Purgatory:
    """Requests of one kind that wait for keys to be touched."""

    def __init__(self, clock: Clock, max_requests: int) -> None:
        """`max_requests` bounds how many wait; one more is finished at once."""
        self._clock = clock
        self._delayed: DelayedOperations[Hashable, DelayedOperation] = DelayedOperations(
            max_requests
        )
        self._keys = self._delayed.keys
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._next_slice: asyncio.Handle | None = None

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._delayed)

    def wait(
        self, keys: Iterable[Hashable], timeout_ms: int, request: DelayedOperation
    ) -> WatchedOperation[Hashable, DelayedOperation] | None:
        """Delay an incomplete request; return None when it was finished at once because too many wait."""
        deadline_ms = self._clock.tick_ms() + timeout_ms
        waiting = self._delayed.register(keys, deadline_ms, request)
        if waiting is None:
            request.wake()
            return None
        if self._timer is None or deadline_ms < self._timer_ms:
            self._set_timer(deadline_ms)
        return waiting

    def cancel(self, waiting: WatchedOperation[Hashable, DelayedOperation]) -> None:
        """Remove a request without completing it, because its response is no longer needed."""
        self._delayed.cancel(waiting)

    def check_and_complete(self, key: Hashable) -> None:
        """Finish the requests of `key` that are complete now; where there are many, some in later iterations."""
        if key not in self._keys:
            return  # nearly always: this is asked for each batch
        for request in self._delayed.check_and_complete(key):
            request.wake()
        if self._delayed.has_postponed and self._next_slice is None:
            self._next_slice = asyncio.get_running_loop().call_soon(self._check_postponed)

    def release(self, key: Hashable) -> None:
        """Finish all requests of `key`, complete or not: a fetch, say, which gives what it has, and asks again."""
        for request in self._delayed.remove_all(key):
            request.wake()

    def close(self) -> None:
        """Check nothing any more; requests that wait are dropped with their connections."""
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_postponed(self) -> None:
        """Check for a slice of the loop's time."""
        self._next_slice = None
        end_ms = self._clock.tick_ms() + SLICE_MS
        for request in self._delayed.check_postponed():
            if request is not None:
                request.wake()
            if self._clock.tick_ms() >= end_ms:
                break
        if self._delayed.has_postponed:
            self._next_slice = asyncio.get_running_loop().call_soon(self._check_postponed)

    def _set_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, deadline_ms - self._clock.tick_ms()) / 1000
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        """Wake those whose time is over, for a slice of the loop's time: thousands may have the same deadline."""
        self._timer = None
        now_ms = self._clock.tick_ms()
        for request in self._delayed.expire(now_ms):
            request.wake()
            if self._clock.tick_ms() >= now_ms + SLICE_MS:
                break
        deadline_ms = self._delayed.deadline_ms()
        if deadline_ms is not None and self._timer is None:
            # The clock counts whole milliseconds: a timer that fires a little early comes back.
            self._set_timer(max(deadline_ms, self._clock.tick_ms() + 1))
