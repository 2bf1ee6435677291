"""Totals, and rates, averages and maxima over a sliding window, as Kafka's clients compute them. Pure.

The window has `metrics.num.samples` samples of `metrics.sample.window.ms` each: 2 of 30 s.
"""

from __future__ import annotations

from collections import deque
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

    __slots__ = ("_samples", "_window", "count", "total")

    def __init__(self, window: Window) -> None:
        """Begin with none."""
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples)
        self.total = 0.0
        self.count = 0

    def add(self, value: float, now_ms: int) -> None:
        """Take a value; `now_ms` is of a clock that never goes back."""
        self.total += value
        self.count += 1
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
        sample = samples[-1]
        sample.count += 1
        sample.sum += value
        sample.highest = max(sample.highest, value)

    def rate(self, now_ms: int) -> float:
        """Return the sum of the window's values in a second."""
        return sum(sample.sum for sample in self._recent(now_ms)) / self._elapsed_s(now_ms)

    def occurrence_rate(self, now_ms: int) -> float:
        """Return the number of the window's values in a second."""
        return sum(sample.count for sample in self._recent(now_ms)) / self._elapsed_s(now_ms)

    def average(self, now_ms: int) -> float:
        """Return the mean of the window's values, NaN without any."""
        recent = self._recent(now_ms)
        count = sum(sample.count for sample in recent)
        return sum(sample.sum for sample in recent) / count if count else nan

    def maximum(self, now_ms: int) -> float:
        """Return the highest of the window's values, NaN without any."""
        return max((sample.highest for sample in self._recent(now_ms)), default=nan)

    def _recent(self, now_ms: int) -> list[_Sample]:
        length_ms = self._window.samples * self._window.sample_ms
        return [one for one in list(self._samples) if now_ms - one.start_ms < length_ms]

    def _elapsed_s(self, now_ms: int) -> float:
        """Return how long the window has been, and at least all samples but one: a burst is no rate."""
        recent = self._recent(now_ms)
        elapsed_ms = now_ms - recent[0].start_ms if recent else 0
        least_ms = max(self._window.samples - 1, 1) * self._window.sample_ms
        return max(elapsed_ms, least_ms, 1) / 1000
