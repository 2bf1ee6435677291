"""The output of the demo."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kavka.demo.topics import alert_text
from kavka.demo.view import PlainView, Snapshot, plain, rich_view
from kavka.pipelines.view import open_view
from kavka.spark.queries.flow_progress import FlowProgress, PartitionLag
from support.terminal import Terminal

SNAPSHOT = Snapshot(
    phase="playing", elapsed_s=12.5, site_time_ms=1_740_960_000_000, sent=1234, sent_per_second=99.6,
    flows=[FlowProgress("demo", "events", rows_in=1500, lag={"a-0": PartitionLag(40, 1.0)})],
    window_start_s=1_740_960_000, limit_count=7,
    top_pages=[("/", 9), ("/b", 3)], alerts=["03 Mar 00:01  abuser   10.0.0.1"], alert_count=5, session_count=6,
)  # fmt: skip


def test_a_plain_line_has_rate_lag_top_pages_and_alerts() -> None:
    assert plain(SNAPSHOT) == (
        "[ 12.5 s] playing: sent 1234 (100/s), lag 40, alerts 5, limits 7, sessions 6, top pages / 9, /b 3"
    )


def test_the_live_view_has_the_same() -> None:
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(rich_view(SNAPSHOT))
    text = console.export_text()
    for part in (
        "playing",
        "1,234",
        "events",
        "1,500",
        "/b",
        "03 Mar 2025 00:00",
        "abuser   10.0.0.1",
        "alerts (5)",
    ):
        assert part in text


def test_plain_lines_come_now_and_then_and_with_each_phase() -> None:
    out = io.StringIO()
    with open_view(PlainView, rich_view, out) as view:
        assert isinstance(view, PlainView)
        for phase in ("starting Spark", "playing", "playing", "done"):
            view.show(Snapshot(phase))
    assert [line.split("] ")[1].split(":")[0] for line in out.getvalue().splitlines()] == [
        "starting Spark", "playing", "done",
    ]  # fmt: skip


def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with open_view(PlainView, rich_view, Terminal()) as view:
        assert isinstance(view, PlainView)


def test_the_cursor_is_seen_beside_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with open_view(PlainView, rich_view, out) as view:
        view.show(SNAPSHOT)
        drawn = out.getvalue()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")


def test_an_alert_is_a_line() -> None:
    value = b'{"visitor":"10.0.0.1","minute":"2025-03-03T12:05:00.000Z","kind":"abuser","requests":61,"reason":"why"}'
    assert alert_text(value) == "03 Mar 12:05  abuser   10.0.0.1         why"
