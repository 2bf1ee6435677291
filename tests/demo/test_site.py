"""The generator of a plausible site."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.demo.line import LogLine, event_time_ms
from kavka.demo.site import START_MS, Site, Traffic
from support.examples import examples


def first(number: int, seed: int = 7, traffic: Traffic | None = None) -> list[LogLine]:
    return list(islice(Site(seed, traffic).lines(), number))


@cache
def many_lines() -> tuple[LogLine, ...]:
    """Return the first 50,000 lines of one site."""
    return tuple(first(50_000))


@given(st.integers(0, 2**32))
@settings(max_examples=examples(5), deadline=None)
def test_a_seed_gives_the_same_lines_again(seed: int) -> None:
    assert first(500, seed) == first(500, seed)


def test_seeds_differ() -> None:
    assert first(100, 1) != first(100, 2)


def test_lines_arrive_in_order_and_after_they_happened() -> None:
    lines = first(20_000)
    assert all(earlier.arrived_ms <= later.arrived_ms for earlier, later in pairwise(lines))
    assert all(line.event_ms <= line.arrived_ms for line in lines if line.event_ms is not None)
    assert all(line.event_ms >= START_MS for line in lines if line.event_ms is not None)


@pytest.mark.slow
def test_the_generator_and_the_parser_agree_on_what_is_malformed() -> None:
    lines = many_lines()
    assert [event_time_ms(line.text) for line in lines] == [line.event_ms for line in lines]
    assert sum(line.event_ms is None for line in lines) > 50


def test_pages_follow_zipfs_law() -> None:
    pages = Counter(
        line.text.split()[6] for line in many_lines() if line.visitor.startswith("10.") and line.event_ms
    )  # fmt: skip
    (_, maximum), (_, second), *rest = pages.most_common(11)
    assert 1.5 < maximum / second < 3
    assert maximum > 5 * rest[-1][1]


def test_some_lines_are_late_and_few_too_late() -> None:
    delays = [line.arrived_ms - line.event_ms for line in many_lines() if line.event_ms is not None]
    late = sum(60_000 <= delay <= 600_000 for delay in delays)
    too_late = sum(delay > 600_000 for delay in delays)
    assert 300 < late < 700
    assert 20 < too_late < 80


def test_polite_crawlers_ask_for_robots_txt_first_and_keep_out() -> None:
    lines = [line.text for line in many_lines() if line.visitor == "192.0.2.1" and line.event_ms]
    assert b"GET /robots.txt" in lines[0]
    assert not any(b"/private/" in text for text in lines)


def test_an_attack_is_many_failed_logins_of_one_visitor_in_a_minute() -> None:
    minutes = Counter(
        (line.visitor, line.event_ms // 60_000)
        for line in many_lines()
        if b"POST /login" in line.text and line.event_ms is not None
    )
    assert minutes.most_common(1)[0][1] > 60


def test_a_site_without_mischief_has_none() -> None:
    calm = Traffic(attacks=0, rude_crawlers=0, malformed_share=0, late_share=0, too_late_share=0)
    lines = first(5000, traffic=calm)
    assert all(
        line.event_ms is not None and line.arrived_ms - line.event_ms < 1000 for line in lines
    )
    assert not any(b"/login" in line.text or b"/private/" in line.text for line in lines)
