"""`python -m kavka.wire show`."""

from __future__ import annotations

import pytest

from kavka.wire.__main__ import main


def test_it_prints_the_code_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "MetadataResponse", "12"]) == 0
    shown = capsys.readouterr().out
    assert "def decode(data, view, pos, size):" in shown
    assert "def encode(message, out, parts):" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ([], 2, "usage"),
        (["show", "MetadataResponse", "x"], 2, "usage"),
        (["show", "Nonsense", "1"], 1, "no message Nonsense"),
        (["show", "MetadataResponse", "99"], 1, "no version 99"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    arguments: list[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert reason in capsys.readouterr().err
