"""Replay of a real access log."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kavka.demo.access_log import read_access_log
from kavka.demo.line import event_time_ms

REAL = Path(__file__).parents[3] / "shared" / "data" / "apache_access.log"


def test_every_line_of_a_file_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    good = b'h - - [03/Mar/2025:12:00:09 +0000] "GET / HTTP/1.1" 200 1 "-" "-"'
    before = good.replace(b":09", b":03")
    path.write_bytes(good + b"\r\n" + before + b"\n\njunk \xff\n" + good)
    lines = list(read_access_log(path))
    assert [line.text for line in lines] == [good, before, b"", b"junk \xff", good]
    nine = event_time_ms(good)
    assert nine is not None
    assert [line.event_ms for line in lines] == [nine, nine - 6000, None, None, nine]
    assert [line.arrived_ms for line in lines] == [nine] * 5
    assert [line.visitor for line in lines] == ["h", "h", "-", "junk", "h"]


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(read_access_log(tmp_path / "none"))


@pytest.mark.parametrize(
    "text",
    [
        b'h - - [31/Feb/2025:12:00:09 +0000] "GET / HTTP/1.1" 200 1 "-" "-"',
        b'h - - [03/Mar/2025:12:00:09 +0000] "GET /" 200 1 "-" "-"',
        b'h - - [03/Mar/2025:12:00:09 +0000] "GET / HTTP/1.1" 999 1 "-" "-"',
        b'h - - [03/Mar/2025:12:00:09 +0000] "GET / HTTP/1.1" 200 1 "-" "-" more',
        b"\xff",
    ],
)
def test_a_malformed_line_has_no_time(text: bytes) -> None:
    assert event_time_ms(text) is None


@pytest.mark.skipif(not REAL.exists(), reason="the access log of ../shared/data is not here")
def test_the_real_log_has_ten_thousand_lines_of_which_one_is_malformed() -> None:
    lines = list(read_access_log(REAL))
    assert len(lines) == 10_000
    assert sum(line.event_ms is None for line in lines) == 1
    assert all(earlier.arrived_ms <= later.arrived_ms for earlier, later in pairwise(lines))
