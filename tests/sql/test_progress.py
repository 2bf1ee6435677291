"""The bar of a long scan."""

from __future__ import annotations

import io
import sys

import pytest

from kavka.sql.progress import _bar


class Terminal(io.StringIO):
    """A terminal that keeps what is drawn."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_that_cannot_redraw_gets_no_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert _bar() is None
    assert terminal.getvalue() == ""


def test_the_cursor_is_seen_beside_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    shown = _bar()
    assert shown is not None
    drawn = terminal.getvalue()
    shown[0].stop()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")
