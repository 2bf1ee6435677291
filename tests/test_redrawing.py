"""Bars in terminals that redraw, and none in others."""

from __future__ import annotations

import pytest

from kavka.redrawing import start_bar
from support.terminal import Terminal


def test_a_terminal_that_cannot_redraw_gets_no_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "dumb")
    assert start_bar(terminal, "reading", "records", 10) is None
    assert terminal.getvalue() == ""


def test_the_cursor_is_seen_beside_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    shown = start_bar(terminal, "reading", "records", 10)
    assert shown is not None
    drawn = terminal.getvalue()
    shown[0].stop()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")
