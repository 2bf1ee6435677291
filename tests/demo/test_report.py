"""The report of the demo and its plots: read by an HTML parser, which knows nothing of them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.demo.audit import Check
from kavka.demo.plots import Series, bars, by_time, histogram, minute_step, nice_ticks
from kavka.demo.replay import Tally
from kavka.demo.report import About, Findings, html_report

EVIL = '<script>alert("x")</script>&\'/"'
SENT = Tally(sent=1234, malformed=3, too_late=2, on_time=1229)
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Collects tags, texts and attributes; fails for tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def minute(number: int, requests: int, **others: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(number * 60, UTC)
    return {"minute": at, "requests": requests, "crawler_requests": 0, "errors": 0, **others}


def findings(text: str) -> Findings:
    start, end = "2025-03-03T00:00:00.000Z", "2025-03-03T00:07:00.000Z"
    names = (
        "requests crawler_requests visitors pages searches client_errors server_errors bytes late"
    )
    day = dict.fromkeys(names.split(), 4)
    return Findings(
        minutes=[minute(29_016_000 + n, 10 + n, errors=n % 3) for n in range(200)],
        pages=[(text, 5), ("/b", 3)],
        searches=[{"search": text, "searches": 2}, {"search": text, "searches": 1}],
        days=[{"date": date(2025, 3, 3), **day}],
        sessions=[{"start": start, "end": end}] * 3,
        alerts=[{"visitor": text, "kind": "abuser", "minute": start, "reason": text}] * 2,
        limits=[{"client": text, "minute": start}],
    )


def report(found: Findings, *checks: Check) -> str:
    about = About(EVIL, datetime(2026, 11, 26, 2, 30, tzinfo=UTC), 61.2)
    return html_report(about, SENT, found, checks or (Check("a = b", 5, 5),))


def test_a_page_has_all_parts_and_closes_what_it_opens() -> None:
    page = Page(report(findings("/a")))
    for title in ("Requests over time", "Top pages", "Searches", "Sessions", "Alerts", "Audit"):
        assert title in page.texts
    assert page.tags.count("svg") == 4
    for text in ("1,234", "requests per minute", "time of the requests, UTC", "5\u201310"):
        assert text in page.texts
    assert {"3 Mar 2025", "00:30"} <= set(page.texts)


def test_strings_of_the_log_are_texts_and_nothing_else() -> None:
    page = Page(report(findings(EVIL), Check(EVIL, 1, 2)))
    assert "script" not in page.tags
    assert any(EVIL in text for text in page.texts)
    assert not any(name.startswith("on") for name, _ in page.attributes)


def test_nothing_is_fetched() -> None:
    text = report(findings("http://evil.example/x.js"))
    page = Page(text)
    assert {"src", "srcset", "data"}.isdisjoint(name for name, _ in page.attributes)
    assert {value for name, value in page.attributes if name == "href"} == {"#audit"}
    assert not re.search(r"url\(|@import|<link|<iframe", text)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_numbers_that_differ_are_said_at_the_top() -> None:
    page = Page(report(findings("/a"), Check("a = b", 5, 5), Check("c = d", 5, 6)))
    assert "1 of 2 numbers of the audit do not agree." in page.texts
    assert "5 != 6" in page.texts


def test_a_run_without_anything_is_a_page_too() -> None:
    page = Page(report(Findings([], [], [], [], [], [], [])))
    assert "svg" not in page.tags
    assert page.texts.count("nothing to show") == 4


@given(st.integers(1, 10**9))
def test_ticks_are_even_and_reach_the_most(maximum: int) -> None:
    ticks = nice_ticks(maximum)
    assert ticks[0] == 0
    assert ticks[-1] >= maximum
    assert 2 <= len(ticks) <= 7
    assert {later - earlier for earlier, later in pairwise(ticks)} == {ticks[1]}


@given(
    st.dictionaries(st.integers(29_000_000, 29_400_000), st.integers(0, 10**6), min_size=1),
)
def test_points_stay_within_the_plot_and_sum_up_to_the_counts(counts: dict[int, int]) -> None:
    text = by_time([Series("all", "all", counts)], "requests")
    [points] = re.findall(r'<polyline class="line all" points="([^"]*)"', text)
    places = [tuple(map(float, point.split(","))) for point in points.split()]
    assert len(places) <= 482
    assert all(64 <= x <= 904 and 12 <= y <= 242 for x, y in places)
    labels = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="260.0"', text)]
    assert all(later - earlier > 40 for earlier, later in pairwise(labels))


@pytest.mark.parametrize(("minutes", "step"), [(1, 1), (240, 30), (5760, 720), (10**7, 10**7 // 8)])
def test_a_time_axis_has_usual_steps(minutes: int, step: int) -> None:
    assert minute_step(minutes, 8) == step


def test_long_labels_are_cut_and_stand_whole_in_the_tooltip() -> None:
    page = Page(bars([("/" + 60 * "x", 3)], "requests"))
    assert "/" + 60 * "x" + ": 3" in page.texts
    assert "/" + 40 * "x" + "\u2026" in page.texts
    assert Page(histogram([("0\u20131", 0)], "x", "y")).texts == ["nothing to show"]
