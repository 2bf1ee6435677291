"""A rate over samples, and for how long it throttles: as Apache Kafka's `Rate` and `SampledStat`, or longer.

    samples:  [  12  ][  40  ][      ][  9  ][ 31 ...      each of `window_ms` or longer, at most `windows` + 1
                                              now ^

What was recorded longer ago than all windows does not count. The sum is divided by the time since the oldest sample
began, and where that is less than `windows` - 1 whole windows, the missing whole windows are added: a client that has
just begun may use what it would have had in that time at once.
"""

from __future__ import annotations

from math import floor, inf
from typing import Final

from kavka.values import frozen

MAX_THROTTLE_MS: Final = (1 << 31) - 1
"""A throttle time is an i32 in responses."""
_AVERAGE_MS: Final = 30_000


@frozen
class Windows:
    """The samples of a rate: `quota.window.num` and `quota.window.size.seconds`."""

    count: int = 11
    seconds: int = 1

    @property
    def window_ms(self) -> int:
        """Milliseconds of one sample."""
        return self.seconds * 1000

    @property
    def burst_seconds(self) -> int:
        """Seconds of a limit that a silent client may use at once."""
        return max(1, self.count - 1) * self.seconds


class _Sample:
    __slots__ = ("begin_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.begin_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """A rate per second. Times are milliseconds of one monotonic clock."""

    __slots__ = ("_current", "_empty_at_ms", "_oldest_ms", "_others", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        """Begin with nothing recorded."""
        self._windows = windows
        # Invariant: at most windows.count + 1; `_current` is the newest, the one behind it the next to be used again.
        self._samples: list[_Sample] = []
        self._current = 0
        # What the samples say, so that a use looks at the current one only.
        self._others = 0.0
        """Sum of the samples that are not the current one."""
        self._oldest_ms = 0
        """The beginning of the oldest sample."""
        self._empty_at_ms = 0
        """Before this time no sample is too old."""

    def record(self, value: float, now_ms: int) -> None:
        """Count; a negative value takes back what was counted."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
            self._sum_up()
        sample = self._samples[self._current]
        if now_ms - sample.begin_ms >= self._windows.window_ms:
            sample = self._next_sample(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate per second."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return self.total * 1000 / elapsed_ms

    @property
    def total(self) -> float:
        """Return what the samples hold, as of the last `measure` or `elapsed_ms`."""
        return self._others + self._samples[self._current].value if self._samples else 0.0

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time by which the sum is divided; samples that are too old are emptied."""
        windows = self._windows
        if self._samples and now_ms >= self._empty_at_ms:
            self._empty_old(now_ms)
        elapsed_ms = now_ms - self._oldest_ms if self._samples else 0
        missing = windows.count - 1 - elapsed_ms // windows.window_ms
        if missing > 0:
            elapsed_ms += missing * windows.window_ms
        return max(elapsed_ms, 1)

    def _next_sample(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.count + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        self._sum_up()
        return self._samples[self._current]

    def _empty_old(self, now_ms: int) -> None:
        all_ms = self._windows.count * self._windows.window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= all_ms:
                sample.reset(now_ms)
        self._sum_up()

    def _sum_up(self) -> None:
        """Look at all samples: one of them has begun again."""
        samples, current = self._samples, self._samples[self._current]
        self._others = sum(sample.value for sample in samples if sample is not current)
        self._oldest_ms = min(sample.begin_ms for sample in samples)
        all_ms = self._windows.count * self._windows.window_ms
        self._empty_at_ms = min(sample.last_ms for sample in samples) + all_ms


class LimitedRate:
    """A rate that clients are to keep below a limit: for how long each use of it throttles them.

    That is for as long as Apache Kafka says, and longer where what was used is not paid for yet. A client that was
    silent may use `Windows.burst_seconds` of the limit at once; a time in which it was throttled earns it nothing.
    Kafka's windows alone would let a client that always has more to send use all of that again every eleven seconds,
    and several clients that share a limit exceed it by a request each.
    """

    __slots__ = ("_limit", "_max_throttle_ms", "_paid_at_ms", "_windows", "rate")

    def __init__(self, windows: Windows, max_throttle_ms: int = MAX_THROTTLE_MS) -> None:
        """Begin with nothing recorded; no throttle is longer than `max_throttle_ms`."""
        self._windows = windows
        self._max_throttle_ms = max_throttle_ms
        self.rate = SampledRate(windows)
        self._limit = 0.0
        self._paid_at_ms = -inf
        """The time at which what was used is paid for by the limit."""

    def record(self, value: float, limit: float, now_ms: int) -> int:
        """Count, and return for how many milliseconds that throttles the clients that share the limit."""
        self.rate.record(value, now_ms)
        excess_ms = min(self.excess_ms(limit, now_ms), self._max_throttle_ms)
        self._set_limit(limit, now_ms)
        self._spend(value, limit, now_ms)
        if excess_ms > 0:
            self._paid_at_ms = max(self._paid_at_ms, now_ms + excess_ms)
        return max(excess_ms, min(self.unpaid_ms(limit, now_ms), self._max_throttle_ms))

    def pay(self, value: float, limit: float, now_ms: int) -> None:
        """Count what throttles nothing by itself: the next `record` sees it."""
        self.rate.record(value, now_ms)
        self._set_limit(limit, now_ms)
        self._spend(value, limit, now_ms)

    def headroom(self, limit: float, now_ms: int) -> float:
        """Return how much may be recorded from now on, at any times, before the first of it throttles.

        At least; it is less than what `record` would let through where samples are about to be emptied.
        """
        if limit <= 0:
            return 0.0
        windows = self._windows
        by_rate = limit * (windows.count - 1) * windows.seconds - self.rate.total
        by_payment = limit * min(windows.burst_seconds, (now_ms - self._paid_at_ms) / 1000)
        return max(0.0, min(by_rate, by_payment))

    def excess_ms(self, limit: float, now_ms: int) -> int:
        """Return for how many milliseconds the rate is above the limit, as Apache Kafka says."""
        elapsed_ms = self.rate.elapsed_ms(now_ms)
        measured = self.rate.total * 1000 / elapsed_ms
        if measured <= limit:
            return 0
        return _rounded((measured - limit) / limit * elapsed_ms if limit > 0 else inf)

    def unpaid_ms(self, limit: float, now_ms: int) -> int:
        """Return for how many milliseconds nothing more should be used: of this, less than one counts as none."""
        self._set_limit(limit, now_ms)
        return _rounded(max(0.0, self._paid_at_ms - now_ms))

    def _spend(self, value: float, limit: float, now_ms: int) -> None:
        """Count it as paid by the limit, by credit first."""
        if limit > 0:
            credit_ms = self._windows.burst_seconds * 1000
            self._paid_at_ms = max(self._paid_at_ms, now_ms - credit_ms) + value * 1000 / limit

    def _set_limit(self, limit: float, now_ms: int) -> None:
        """Pay what is left by another limit."""
        if limit != self._limit:
            if self._paid_at_ms > now_ms and limit > 0:
                self._paid_at_ms = now_ms + (self._paid_at_ms - now_ms) * self._limit / limit
            self._limit = limit


def _rounded(throttle_ms: float) -> int:
    return MAX_THROTTLE_MS if throttle_ms >= MAX_THROTTLE_MS else floor(throttle_ms + 0.5)


class Average:
    """The mean of what was recorded in the last half minute or minute, for metrics."""

    __slots__ = ("_before", "_began_ms", "_now")

    def __init__(self) -> None:
        """Begin with nothing recorded."""
        self._began_ms = 0
        self._now = (0, 0.0)
        self._before = (0, 0.0)

    def record(self, value: float, now_ms: int) -> None:
        """Count a value."""
        self._turn(now_ms)
        count, total = self._now
        self._now = (count + 1, total + value)

    def measure(self, now_ms: int) -> float:
        """Return the mean, 0 where there is nothing."""
        self._turn(now_ms)
        count = self._now[0] + self._before[0]
        return (self._now[1] + self._before[1]) / count if count else 0.0

    def _turn(self, now_ms: int) -> None:
        age_ms = now_ms - self._began_ms
        if age_ms >= _AVERAGE_MS:
            self._before = self._now if age_ms < 2 * _AVERAGE_MS else (0, 0.0)
            self._now, self._began_ms = (0, 0.0), now_ms
