"""The bar of a long scan."""

import sys
from types import SimpleNamespace
from typing import cast

import pytest

from kavka.sql import progress
from kavka.sql.progress import ScanProgress
from kavka.sql.scan_state import ScanState
from support.terminal import Terminal


def test_a_scan_that_takes_a_second_shows_how_much_it_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    state = SimpleNamespace(offsets_total=2_000, offsets_done=500)
    shown = ScanProgress()
    shown(cast(ScanState, state))
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "_AFTER_S", 0.0)
    shown(cast(ScanState, state))
    shown.hide()
    assert "reading" in terminal.getvalue()
    assert "25% of 2,000 records" in terminal.getvalue()
