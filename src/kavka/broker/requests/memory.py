"""Memory bounds of requests besides their frames: of each, and of large ones together.

A frame of a mebibyte can say half a million empty names, and each becomes an object. What decoded objects weigh is
estimated while they are made (`wire.compile_decode`), so that a request which takes too much is given up early.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kavka.broker.requests.refusals import RefusalReason
from kavka.wire.apis import ApiKey

REQUEST_SETTING: Final = "kavka.request.decoded.max.bytes"
RESPONSE_SETTING: Final = "kavka.response.max.bytes"
TOTAL_SETTING: Final = "kavka.requests.decoded.max.bytes"
_MIN_BOUND: Final = 8 << 20
_PER_BYTE: Final = 20
"""Real requests become 5 to 15 times as large when they are decoded; only those of empty items become larger."""
_FIXED: Final = {
    ApiKey.PRODUCE: 4 << 20,
    ApiKey.FETCH: 24 << 20,
    ApiKey.DESCRIBE_PRODUCERS: 8 << 20,
}
"""Maximum of APIs with much work for each partition: 14,000 of a Produce (its records are not decoded) are appended in
one iteration of the loop; each of 80,000 of a Fetch takes ten times as much again when it is answered, each
of a DescribeProducers six times."""
_CONTROL_REQUESTS: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
_CONTROL_REQUEST_FACTOR: Final = 4
"""A control request may name every partition of the cluster: its bound is larger by this factor."""


class RequestTooLarge(Exception):
    """A request that would take more memory, or give a larger response, than one may; its connection is closed."""

    def __init__(self, text: str, reason: RefusalReason) -> None:
        """`text` is for the log, `reason` for the metrics."""
        super().__init__(text)
        self.reason = reason


class DecodedBound(NamedTuple):
    """The memory bound of the objects of a request."""

    max_bytes: int
    remedy: str
    """Advice for the log: the setting that changes the bound, or a smaller request."""


def api_bound(api: ApiKey, setting: int) -> DecodedBound:
    """Return the bound of an API's requests, where `kavka.request.decoded.max.bytes` is `setting`."""
    max_bytes = setting * _CONTROL_REQUEST_FACTOR if api in _CONTROL_REQUESTS else setting
    fixed = _FIXED.get(api, max_bytes)
    if fixed < max_bytes:
        return DecodedBound(fixed, "send fewer partitions in a request")
    return DecodedBound(max_bytes, f"raise {REQUEST_SETTING}")


def request_bound(frame_bytes: int, of_api: DecodedBound) -> DecodedBound:
    """Return the bound of one request: that of its API, or less for a small frame."""
    max_bytes = _MIN_BOUND + _PER_BYTE * frame_bytes
    if max_bytes < of_api.max_bytes:
        return DecodedBound(
            max_bytes, "no request of an ordinary client takes so much for its size"
        )
    return of_api


class RequestMemory:
    """The memory of all large requests in work. Those for which there is no room wait, first come, first served."""

    def __init__(self, capacity: int) -> None:
        """Begin with nothing in use."""
        self._capacity = capacity
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._notify_used: Callable[[bool], None] | None = None
        self._held = 0
        self.in_use = 0
        """Invariant: what was taken and not given back."""

    def watch(self, notify_used: Callable[[bool], None]) -> None:
        """Call with True when the first large request or other work begins, with False when the last one has ended."""
        self._notify_used = notify_used

    async def take(self, size: int) -> None:
        """Wait until there is room for `size`; one request that is larger than all the room has it alone."""
        if not self._waiting and self._has_room(size):
            self._use(size)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(size)  # it was let in at the moment it was given up
            raise

    def give(self, size: int) -> None:
        """Free memory, and admit waiting requests."""
        self._use(-size)
        assert self.in_use >= 0, "given back twice"
        while self._waiting and (self._waiting[0][1].done() or self._has_room(self._waiting[0][0])):
            wanted, future = self._waiting.popleft()
            if not future.done():
                self._use(wanted)
                future.set_result(None)

    @contextmanager
    def large_work(self) -> Iterator[None]:
        """Do work with as many objects as a large request has; it waits for no room and takes none."""
        self._use(0, held=1)
        try:
            yield
        finally:
            self._use(0, held=-1)

    def _use(self, more: int, held: int = 0) -> None:
        was_used = self._is_used()
        self.in_use += more
        self._held += held
        if self._notify_used is not None and was_used != self._is_used():
            self._notify_used(not was_used)

    def _is_used(self) -> bool:
        return self.in_use > 0 or self._held > 0

    def _has_room(self, size: int) -> bool:
        return self.in_use == 0 or self.in_use + size <= self._capacity


def check_count(api: str, what: str, count: int, maximum: int) -> None:
    """Raise RequestTooLarge for more items than a request may name."""
    if count > maximum:
        raise RequestTooLarge(
            f"a {api} names {count} {what}, allowed are {maximum}", RefusalReason.COUNT
        )
