"""Durations: sums are exact, quantiles within an eighth, and what is old is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.metrics.timings import Timings, merged, quantiles

DURATIONS = st.lists(st.integers(0, 10_000_000), min_size=1, max_size=50)


def recorded(*durations: int) -> Timings:
    timings = Timings()
    for duration in durations:
        timings.record(duration)
    return timings


@given(DURATIONS)
def test_count_and_sum_are_exact(durations: list[int]) -> None:
    timings = recorded(*durations)
    assert (timings.count, timings.sum_ms) == (len(durations), sum(durations))


@given(DURATIONS, st.sampled_from([0.5, 0.75, 0.95, 0.99, 0.999, 1.0]))
def test_a_quantile_is_at_most_an_eighth_above_the_duration_of_its_rank(
    durations: list[int], quantile: float
) -> None:
    rank = next(i for i in range(len(durations)) if i + 1 >= quantile * len(durations))
    true = sorted(durations)[rank]
    (found,) = quantiles(recorded(*durations).counts(), [quantile])
    assert true <= found <= true * 9 / 8 + 1


def test_quantiles_below_64_ms_are_exact() -> None:
    timings = recorded(*range(64))
    assert quantiles(timings.counts(), [0.5, 1.0]) == [31, 63]


def test_the_longest_durations_share_a_bucket() -> None:
    timings = recorded(1 << 40)
    assert quantiles(timings.counts(), [0.5])[0] >= 1 << 26
    assert timings.sum_ms == 1 << 40


def test_a_clock_that_went_back_counts_in_the_smallest_bucket() -> None:
    assert quantiles(recorded(-5).counts(), [1.0]) == [0]


def test_without_durations_quantiles_are_0() -> None:
    assert quantiles(Timings().counts()) == [0] * 6


def test_a_duration_is_forgotten_by_quantiles_after_two_turns_but_not_by_the_sum() -> None:
    timings = recorded(40)
    timings.rotate()
    assert quantiles(timings.counts(), [0.5]) == [40]
    timings.rotate()
    assert quantiles(timings.counts(), [0.5]) == [0]
    assert (timings.count, timings.sum_ms) == (1, 40)


def test_several_are_reported_together_with_those_that_took_no_time() -> None:
    counts = merged([recorded(10), recorded(20)], zeros=2)
    assert quantiles(counts, [0.5, 0.75, 1.0]) == [0, 10, 20]
