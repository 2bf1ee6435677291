"""`kavka simulate`: ranges, exit codes, and the story of one seed."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kavka import __version__ as kavka_version
from kavka.cli.commands.simulate import main, seed_range
from kavka.cli.main import main as kavka
from kavka.simulation.batch import Kind
from kavka.simulation.code import code_digest, commit_name
from kavka.simulation.ledger import Ledger
from support.waiting import wait_until

pytestmark = pytest.mark.slow


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


def test_one_seed_is_printed_as_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--storage", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert "disk-1         starts (run 1)" in printed
    assert printed.splitlines()[-1].startswith("seed 3: ok")


def test_quiet_prints_the_outcome_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert kavka(["simulate", "--storage", "--seed", "3", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_several_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--storage", "--seeds", "0-11", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("12 seeds, 0 failed")


def test_a_stopped_run_goes_on_with_the_seeds_that_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "seeds"
    command = ["--storage", "--jobs", "1", f"--ledger={ledger}"]
    assert main([*command, "--seeds", "0-4"]) == 0
    lines = ledger.read_bytes().splitlines(keepends=True)
    assert [json.loads(line).get("seed") for line in lines] == [None, 0, 1, 2, 3, 4]
    ledger.write_bytes(b"".join(lines[:4]) + lines[4][:9])  # stopped in the middle of a line
    capsys.readouterr()

    assert main([*command, "--seeds", "0-5"]) == 0
    printed = capsys.readouterr()
    assert "3 of 6 seeds were run before" in printed.err
    assert printed.out.startswith("6 seeds, 0 failed")
    again = ledger.read_bytes().splitlines()
    assert [json.loads(line).get("seed") for line in again] == [None, 0, 1, 2, 3, 4, 5]


def test_the_summary_names_seeds_commit_failures_and_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--storage", "--jobs=1", f"--ledger={tmp_path / 'seeds'}", "--seeds", "0-5"]) == 0
    (summary,) = capsys.readouterr().out.splitlines()
    assert summary.startswith("6 seeds, 0 failed, ")
    assert f"; seeds 0-5 of one log on a bad disk, commit {commit_name()}; " in summary
    assert re.search(r"; \d+ of 16 marks met, the rarest \d+ times \(.+\)$", summary)


def test_the_summary_names_the_commit_that_the_ledger_was_begun_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later commits with the same code may play on."""
    ledger = tmp_path / "seeds"
    assert main(["--storage", "--jobs=1", f"--ledger={ledger}", "--seeds", "0-1"]) == 0
    ledger.write_text(ledger.read_text().replace(commit_name(), "0123456789ab"))
    capsys.readouterr()
    assert main(["--storage", "--jobs=1", f"--ledger={ledger}", "--seeds", "0-2"]) == 0
    assert "commit 0123456789ab; " in capsys.readouterr().out


def test_code_that_changes_meanwhile_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr("kavka.cli.commands.simulate.code_digest", lambda: next(digests))
    assert main(["--storage", "--jobs=1", "--seeds", "0"]) == 1
    assert "the code has changed meanwhile" in capsys.readouterr().out


def test_a_ledger_is_used_by_one_process_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(tmp_path / "seeds", Kind.STORAGE, None, code_digest(), commit_name())
    with pytest.raises(SystemExit):
        main(["--storage", f"--ledger={tmp_path / 'seeds'}", "--seeds", "0"])
    assert "is in use by another process" in capsys.readouterr().err
    ledger.close()


def test_the_digest_is_of_names_and_contents_of_source_files(tmp_path: Path) -> None:
    def digest_with(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return code_digest(tmp_path)

    digests = [digest_with("a.py", "1"), digest_with("a.py", "2"), digest_with("b/c.py", "")]
    assert len(set(digests)) == 3
    assert digest_with("b/notes.txt", "anything") == digests[-1]


def test_without_a_repository_the_version_stands_for_the_commit(tmp_path: Path) -> None:
    assert commit_name(tmp_path) == f"none, kavka {kavka_version}"


def test_a_terminated_run_leaves_no_process_behind(tmp_path: Path) -> None:
    ledger = tmp_path / "seeds"
    command = [sys.executable, "-m", "kavka", "simulate", "--storage", "--seeds=0-99999"]
    with subprocess.Popen(
        [*command, f"--ledger={ledger}"], stderr=subprocess.PIPE, text=True
    ) as run:
        wait_until(lambda: len(_children_of(run.pid)) >= 2 and ledger.stat().st_size > 200)
        children = _children_of(run.pid)
        run.terminate()
        _, printed = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "stopped after" in printed
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_run_under_nohup_survives_its_terminal(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "kavka", "simulate", "--storage", "--seeds=0-99999"]
    ledger = tmp_path / "seeds"
    with subprocess.Popen(
        [*command, f"--ledger={ledger}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        wait_until(lambda: ledger.exists() and ledger.stat().st_size > 200)
        run.send_signal(signal.SIGHUP)
        size = ledger.stat().st_size
        wait_until(lambda: ledger.stat().st_size > size)
        run.terminate()
        run.communicate(timeout=60)
    assert run.returncode == 130


def _children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
