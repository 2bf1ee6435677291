"""Rates of counters: over the last turns, and zero where nothing grows."""

from __future__ import annotations

from kavka.metrics.rates import Rates


def test_a_rate_is_the_growth_over_the_last_three_turns() -> None:
    rates = Rates(0)
    assert rates.per_second("n", "", 20, 10_000) == 2.0
    for turn in range(1, 7):
        rates.turn(turn * 10_000, {("n", ""): turn * 100})
    assert rates.per_second("n", "", 600, 60_000) == 200 / 20
    assert rates.per_second("n", "", 700, 70_000) == 300 / 30
    assert rates.per_second("n", "", 600, 70_000, turns=6) == 500 / 60


def test_a_rate_without_time_is_none() -> None:
    assert Rates(5).per_second("n", "", 20, 5) == 0.0
