"""Totals, and rates, averages and maxima over a sliding window, as Kafka's clients compute them. Pure.

The window has `metrics.num.samples` samples of `metrics.sample.window.ms` each: 2 of 30 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, nan
from typing import NamedTuple


class Window(NamedTuple):
    """Number of samples and their length."""

    samples: int = 2
    sample_ms: int = 30_000


class _Sample:
    __slots__ = ("count", "highest", "start_ms", "sum")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.sum = 0.0
        self.highest = -inf


class Sensor:
    """Values that come one by one: their sum and number since the start, and the last samples."""

    __slots__ = ("_end_ms", "_sample", "_samples", "_window", "count", "total")

    def __init__(self, window: Window) -> None:
        """Begin with none."""
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples)
        self._sample = _Sample(0)
        self._end_ms = -1
        self.total = 0.0
        self.count = 0

    def add(self, value: float, now_ms: int) -> None:
        """Take a value; `now_ms` is of a clock that never goes back."""
        if now_ms >= self._end_ms:
            self._sample = _Sample(now_ms)
            self._samples.append(self._sample)
            self._end_ms = now_ms + self._window.sample_ms
        sample = self._sample
        self.total += value
        self.count += 1
        sample.count += 1
        sample.sum += value
        if value > sample.highest:  # noqa: PLR1730  a call of max() would take as long as all of this
            sample.highest = value

    def recent(self, now_ms: int) -> list[_Sample]:
        """Return the samples of the window."""
        length_ms = self._window.samples * self._window.sample_ms
        return [one for one in list(self._samples) if now_ms - one.start_ms < length_ms]

    def elapsed_s(self, now_ms: int) -> float:
        """Return how long the window has been, and at least all samples but one: a burst is no rate."""
        recent = self.recent(now_ms)
        elapsed_ms = now_ms - recent[0].start_ms if recent else 0
        least_ms = max(self._window.samples - 1, 1) * self._window.sample_ms
        return max(elapsed_ms, least_ms, 1) / 1000


class Sum:
    """Several sensors as one; none is the sensor of nothing. Made when values are asked for."""

    def __init__(self, sensors: Iterable[Sensor], now_ms: int) -> None:
        """Take the sensors, and the time."""
        self._sensors = list(sensors)
        self._now_ms = now_ms
        self._samples = [sample for one in self._sensors for sample in one.recent(now_ms)]

    @property
    def total(self) -> float:
        """The sum of all values."""
        return sum(sensor.total for sensor in self._sensors)

    @property
    def count(self) -> int:
        """The number of all values."""
        return sum(sensor.count for sensor in self._sensors)

    @property
    def window_sum(self) -> float:
        """The sum of the window's values."""
        return sum(sample.sum for sample in self._samples)

    def rate(self) -> float:
        """Return the sum of the window's values in a second."""
        return sum(
            sum(sample.sum for sample in one.recent(self._now_ms)) / one.elapsed_s(self._now_ms)
            for one in self._sensors
        )

    def occurrence_rate(self) -> float:
        """Return the number of the window's values in a second."""
        return sum(
            sum(sample.count for sample in one.recent(self._now_ms)) / one.elapsed_s(self._now_ms)
            for one in self._sensors
        )

    def average(self) -> float:
        """Return the mean of the window's values, NaN without any."""
        return ratio(self.window_sum, sum(sample.count for sample in self._samples))

    def maximum(self) -> float:
        """Return the highest of the window's values, NaN without any."""
        return max((sample.highest for sample in self._samples), default=nan)


def ratio(part: float, whole: float) -> float:
    """Return a quotient, NaN of nothing."""
    return part / whole if whole else nan
