"""Counters of those that share a limit, and of the request time that they take, by few readings of the clock.

The time of a request is charged when its response is ready, because it may throttle it. While those that share the
limit have so much left that all of the loop's time could not bring them above it, no response is throttled: until then
(`free_until_ms`) no request reads the clock or is counted by itself. Its time stays with the meter of its connection,
which charges it by the millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kavka.core.quota.rate import Average, LimitedRate
from kavka.io import Clock

_NS_PER_PERCENT: Final = 10_000_000
"""One hundredth of a second of the loop's time is one percent of a second."""
_MS_PER_PERCENT: Final = 10
_MAX_FREE_MS: Final = 1000

T = TypeVar("T")


class Metered(Generic[T]):
    """The counter of one entity, with the times for which it was throttled."""

    __slots__ = ("meter", "throttle_ms")

    def __init__(self, meter: T) -> None:
        """Begin with nothing counted."""
        self.meter = meter
        self.throttle_ms = Average()
        """Of each throttled request."""


class RequestTime(Metered[LimitedRate]):
    """The loop's time of those that share a limit, in percent of a second."""

    __slots__ = ("_clock", "_limit", "charge", "free_until_ms")

    def __init__(self, rate: LimitedRate, clock: Clock) -> None:
        """Begin with nothing counted, and without a limit."""
        super().__init__(rate)
        self._clock = clock
        self._limit = 0.0
        self.charge: Callable[[int], None] = self._charge
        """Count time that throttles no response of its own."""
        self.free_until_ms = 0
        """Before this time of the clock no response is throttled."""

    def set_limit(self, limit: float) -> None:
        """Go by a limit from now on."""
        if limit != self._limit:
            self._limit = limit
            self.free_until_ms = 0

    def _charge(self, taken_ns: int) -> None:
        self.meter.pay(taken_ns / _NS_PER_PERCENT, self._limit, self._clock.tick_ms())

    def record(self, taken_ns: int, now_ms: int) -> int:
        """Count the time of a request, and return for how many milliseconds its response throttles the client."""
        throttle_ms = self.meter.record(taken_ns / _NS_PER_PERCENT, self._limit, now_ms)
        if throttle_ms > 0:
            self.throttle_ms.record(throttle_ms, now_ms)
        else:
            # Half of it: connections of these clients have up to a millisecond each that is not charged yet.
            left_ms = self.meter.headroom(self._limit, now_ms) * _MS_PER_PERCENT / 2
            self.free_until_ms = now_ms + int(min(left_ms, _MAX_FREE_MS))
        return throttle_ms
