"""Replays and what they tally."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from kavka.demo.line import LogLine
from kavka.demo.replay import (
    LATENESS_MS,
    LIMIT,
    SLICE_MS,
    Replay,
    Tally,
    replay_of_file,
    replay_of_site,
)


def line(arrived_ms: int) -> LogLine:
    return LogLine("v", b"text", arrived_ms, arrived_ms)


def test_a_replay_keeps_the_rhythm_and_is_done_in_time() -> None:
    lines = [line(0), line(1), line(SLICE_MS), line(9 * SLICE_MS)]
    replay = Replay("test", lambda: iter(lines), 0, 10 * SLICE_MS, lambda: len(lines))
    slices = list(replay.slices(20.0))
    assert [due for due, _ in slices] == pytest.approx([0, 2, 18])
    assert [len(lines) for _, lines in slices] == [2, 1, 1]


def test_no_slice_holds_more_than_a_minute_of_the_site() -> None:
    for _, lines in replay_of_site(3, 0.2).slices(5):
        assert lines[-1].arrived_ms - lines[0].arrived_ms < SLICE_MS


def test_a_site_is_played_for_its_hours() -> None:
    replay = replay_of_site(3, 0.5)
    lines = list(replay.lines())
    assert 25 * 60_000 < lines[-1].arrived_ms - replay.first_ms < 30 * 60_000


def test_a_file_is_played_from_its_first_to_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    text = 'h - - [03/Mar/2025:12:00:%02d +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
    path.write_text("junk\n" + text % 1 + text % 31)
    replay = replay_of_file(path)
    assert replay.last_ms - replay.first_ms == 30_000
    assert len([line for _, lines in replay.slices(1) for line in lines]) == 3
    assert next(replay.slices(1))[0] == 0


def test_what_there_is_to_play_is_counted_without_playing_it(tmp_path: Path) -> None:
    site = replay_of_site(3, 0.2)
    assert site.count() == len(list(site.lines())) > 0
    path = tmp_path / "access.log"
    text = 'h - - [03/Mar/2025:12:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
    path.write_text(text + "\njunk")
    file = replay_of_file(path)
    dropping = replace(file, lines=lambda: islice(file.lines(), 1))
    assert (file.count(), dropping.count(), len(list(dropping.lines()))) == (3, 3, 1)


def test_what_is_written_to_a_file_later_is_neither_played_nor_counted(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    text = 'h - - [03/Mar/2025:12:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
    for begun in ("", "half a li"):
        path.write_text(text + text + begun)
        replay = replay_of_file(path)
        with path.open("a") as file:
            file.write("ne\n" + text)
        assert len(list(replay.lines())) == replay.count() == 2 + bool(begun)


def test_a_file_without_a_good_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("junk\n")
    with pytest.raises(ValueError, match="no line in combined log format"):
        replay_of_file(path)


def test_a_tally_counts_each_line_once() -> None:
    tally = Tally()
    tally.add([
        line(5), LogLine("v", b"", 5, None), LogLine("v", b"", LATENESS_MS + 1, 0), LogLine("v", b"", LATENESS_MS, 0),
    ])  # fmt: skip
    assert tally == Tally(sent=4, malformed=1, too_late=1, on_time=2)


def test_a_tally_counts_the_minutes_of_a_client_above_the_limit_once() -> None:
    tally = Tally()
    busy = [LogLine("a", b"", 60_000 + n, 60_000) for n in range(LIMIT + 5)]
    tally.add(busy)
    tally.add([*busy, *(LogLine("b", b"", n, 0) for n in range(LIMIT))])
    tally.add([LogLine("a", b"", 120_000, 120_000)])
    assert tally.above_limit == 1
