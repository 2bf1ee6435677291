"""Progress of long work: nothing for scripts, a line or a bar on a terminal after two seconds."""

from __future__ import annotations

import builtins
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.text.progress import Progress, progress
from kavka.wire.records.batch import BatchBuilder
from support.terminal import Terminal


class Clock:
    """A time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which rich is not installed."""
    real = builtins.__import__

    def refuse(name: str, *more: Any, **options: Any) -> Any:
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.usefixtures("without_rich")
def test_a_line_comes_after_two_seconds_and_then_every_five() -> None:
    clock, out = Clock(), io.StringIO()
    shown = Progress("reading", 2_000, "records", out, clock)
    for second, done in ((1.9, 100), (2, 500), (4, 900), (6.9, 950), (7, 1_000), (20, 2_000)):
        clock.now = 100 + second
        shown.update(done)
    shown.close()
    assert out.getvalue().splitlines() == [
        "reading: 25% of 2,000 records, 6 s left",
        "reading: 50% of 2,000 records, 7 s left",
    ]


def test_a_bar_is_drawn_where_rich_is_and_removed_at_the_end() -> None:
    pytest.importorskip("rich")
    clock, out = Clock(), Terminal()
    shown = Progress("reading", 2_000, "records", out, clock)
    before = sys.stdout
    clock.now += 3
    shown.update(500)
    assert sys.stdout is before, "what a command prints is not drawn"
    shown.close()
    assert " 25% of 2,000 records" in out.getvalue()


def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    clock, out = Clock(), Terminal()
    shown = Progress("reading", 2_000, "records", out, clock)
    clock.now += 3
    shown.update(500)
    shown.close()
    assert out.getvalue() == "reading: 25% of 2,000 records, 9 s left\n"


def test_a_process_that_is_killed_leaves_a_cursor_that_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    clock, out = Clock(), Terminal()
    shown = Progress("reading", 2_000, "records", out, clock)
    clock.now += 3
    shown.update(500)
    drawn = out.getvalue()
    shown.close()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")


def test_nothing_is_shown_where_standard_error_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("reading", 10, "records") as shown:
        shown._next_s = 0  # two seconds are over
        shown.update(5)
    assert capsys.readouterr().err == ""


def test_a_dump_into_a_file_shows_its_progress_on_the_terminal(tmp_path: Path) -> None:
    builder = BatchBuilder()
    builder.append(None, b"v" * 100, 0)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(builder.build() * 100)
    # The two seconds are over at once.
    program = (
        "import sys; import kavka.cli.text.progress as p; p._AFTER_S = -1; "
        "from kavka.cli.main import main; sys.exit(main(['dump-log', '--files', sys.argv[1]]))"
    )
    controller, terminal = pty.openpty()
    with (tmp_path / "dump").open("wb") as dump:
        command = [sys.executable, "-c", program, str(path)]
        done = subprocess.run(command, stdout=dump, stderr=terminal, check=False)
    os.close(terminal)
    drawn = os.read(controller, 100_000).decode()
    os.close(controller)
    assert done.returncode == 0
    assert "% of " in drawn
    assert "bytes" in drawn
    lines = (tmp_path / "dump").read_text().splitlines()
    assert len(lines) == 102
    assert all("baseOffset: " in line for line in lines[2:])
