"""A moving baseline: mean and variance of a series, of which what is older counts less; and z-scores against it. Pure.

A sample x comes dt after the last one. Before it is learnt, it is judged:

    deviation = max(sqrt(variance), min_deviation, RELATIVE_FLOOR * |mean|)
    z = (x - mean) / deviation                     None until `warmup` samples were learnt

Then it is learnt, with a weight that follows from the half-life, whatever the distance of samples is:

    weight = max(1 - 2 ** (-dt / half_life), 1 / n)            n samples with this one: at first all count the same
    d = clamp(x, mean - CLAMP * deviation, mean + CLAMP * deviation) - mean
    mean     = mean + weight * d
    variance = (1 - weight) * (variance + weight * d * d)

(Exponentially weighted moving average and variance; T. Finch, "Incremental calculation of weighted mean and variance",
2009.) Clamping makes one wild sample move the baseline little, while a new level becomes the baseline in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Direction = Literal["both", "up", "down"]

CLAMP = 3.0
"""A sample is learnt as at most so many deviations away from the mean."""
RELATIVE_FLOOR = 0.001
"""A deviation is at least this share of the mean: a series that was constant has none of its own."""
MAX_SCORE = 1000.0
"""Scores are cut there: a series that was always 0 has no deviation at all."""
MAX_VALUE = 1e150
"""Values are learnt up to there, so that their squares are numbers."""


@dataclass(frozen=True, slots=True)
class BaselineSettings:
    """Settings of a baseline: its speed, and the side of it that counts."""

    half_life_ms: int
    warmup: int = 30
    min_deviation: float = 0.0
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The moving mean and variance of a series."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0
    last_ms: int = 0

    def deviation(self, settings: BaselineSettings) -> float:
        """Return the deviation that samples are judged by; 0 where there is none."""
        floor = max(settings.min_deviation, RELATIVE_FLOOR * abs(self.mean))
        return max(math.sqrt(self.variance), floor)

    def score(self, settings: BaselineSettings, value: float) -> float | None:
        """Return the z-score of a value, with its sign; None while too little was learnt."""
        if self.count < settings.warmup:
            return None
        distance, deviation = value - self.mean, self.deviation(settings)
        if distance == 0:
            return 0.0
        limit = MAX_SCORE * deviation
        return (
            math.copysign(MAX_SCORE, distance) if abs(distance) >= limit else distance / deviation
        )

    def learn(self, settings: BaselineSettings, value: float, time_ms: int) -> Baseline:
        """Return the baseline with a sample more; `time_ms` is not before that of the last one."""
        value = max(-MAX_VALUE, min(MAX_VALUE, value))
        count = self.count + 1
        passed_ms = max(time_ms - self.last_ms, 0)
        weight = max(1 - 2 ** (-passed_ms / settings.half_life_ms), 1 / count)
        if self.count == 0:
            return Baseline(1, value, 0.0, time_ms)
        step = value - self.mean
        if self.count >= settings.warmup:
            # Without any deviation there is nothing to clamp by: such a sample is the first that has one.
            limit = CLAMP * self.deviation(settings)
            step = max(-limit, min(limit, step)) if limit > 0 else step
        variance = (1 - weight) * (self.variance + weight * step * step)
        return Baseline(count, self.mean + weight * step, variance, time_ms)


def severity_of(direction: Direction, score: float) -> float:
    """Return how far a score is on the side that counts; 0 or less on the other."""
    if direction == "both":
        return abs(score)
    return score if direction == "up" else -score
