"""The command that judges a history in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.testing.history import write_event, write_header
from kavka.testing.history.__main__ import main
from support.history.history_notation import history


def written(path: Path, text: str, **promises: object) -> str:
    with path.open("w") as sink:
        if promises:
            write_header(sink, promises)
        for event in history(text):
            write_event(sink, event)
    return str(path)


LOST = "p send a ok 0\np send b ok 1\nc poll 1:b"


def test_a_sound_history_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", written(tmp_path / "h", "p send a ok 0\nc poll 0:a")]) == 0
    assert "verdict: no forbidden anomaly" in capsys.readouterr().out


def test_a_forbidden_anomaly_exits_with_1_and_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", written(tmp_path / "h", LOST)]) == 1
    out = capsys.readouterr().out
    assert "lost-write: 1, FORBIDDEN" in out
    assert "  - no consumer read 'a' to t-0 offset 0 by p's send" in out
    assert out.endswith("verdict: BROKEN: lost-write\n")


def test_the_promises_of_the_header_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", written(tmp_path / "h", LOST, acks="1", idempotent=False)]) == 0
    assert "lost-write: 1, allowed (`acks` is not all)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", ["nonsense", '{"history": 2}', '{"history": 1, "acks": "some"}']
)
def test_what_is_no_history_exits_with_2(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h").write_text(content)
    assert main(["--check", str(tmp_path / "h")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_missing_file_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path / "nothing")]) == 2
    assert "nothing" in capsys.readouterr().err
