"""`kavka simulate`: ranges, exit codes, and the story of one seed."""

from __future__ import annotations

import argparse

import pytest

from kavka.cli.main import main as kavka
from kavka.cli.simulate import main, seed_range


def test_ranges_include_both_ends() -> None:
    assert list(seed_range("3-5")) == [3, 4, 5]
    assert list(seed_range("7")) == [7]


@pytest.mark.parametrize("text", ["", "a-b", "5-3", "1-2-3"])
def test_a_wrong_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"range of seeds|holds no seed"):
        seed_range(text)


@pytest.mark.parametrize("text", ["0", "-1", "many", "65"])
def test_a_wrong_number_of_processes_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([f"--jobs={text}"])
    assert f"'{text}' is no number of processes from 1 to 64" in capsys.readouterr().err


def test_one_seed_is_told_as_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--storage", "--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert "disk-1         starts (run 1)" in told
    assert told.splitlines()[-1].startswith("seed 3: ok")


def test_quiet_tells_the_outcome_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert kavka(["simulate", "--storage", "--seed", "3", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_several_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--storage", "--seeds", "0-11", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("12 seeds, 0 failed")
