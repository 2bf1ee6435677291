"""`kavka lake` with catalogues and tables that are not there: one sentence, and nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.commands.lake import main
from support.lake import Lake, rows


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("kavka lake: ")
    return printed.err


def test_a_folder_without_a_catalogue_is_named_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "nowhere"
    said = refusal(capsys, "status", "--table", "lake.clicks", "--warehouse", str(wrong))
    assert f"There is no catalogue in {wrong}" in said
    assert not wrong.exists()


def test_a_namespace_that_does_not_exist_is_named(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.commit(0, rows(range(3), minutes=0))
    warehouse = str(tmp_path / "warehouse")
    said = refusal(capsys, "status", "--table", "lakes.*", "--warehouse", warehouse)
    assert said == "kavka lake: There is no namespace lakes in the catalogue.\n"


def test_without_a_catalogue_the_options_that_name_one_are_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--warehouse DIR" in refusal(capsys, "status", "--table", "lake.clicks")


def test_a_catalogue_that_does_not_answer_is_named_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rest = ("--catalog", "type=rest", "--catalog", "uri=http://127.0.0.1:1")
    said = refusal(capsys, "status", "--table", "lake.clicks", *rest)
    assert said == (
        "kavka lake: The catalogue http://127.0.0.1:1 cannot be reached: Connection refused.\n"
    )
