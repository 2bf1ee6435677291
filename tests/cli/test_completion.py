"""Completion of commands, sub-commands and options in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.cli.commands.completion import candidates, main
from kavka.cli.main import COMMANDS

KAVKA = [sys.executable, "-m", "kavka"]


def test_the_first_word_is_a_command() -> None:
    assert candidates([]) == candidates([""]) == sorted(COMMANDS)
    assert candidates(["get"]) == ["get-offsets"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["topics", "--de"], ["--delete", "--delete-config", "--describe"]),
        (["server-start", "-d"], ["-daemon"]),
        (["storage", ""], ["format", "info", "random-uuid"]),
        (["storage", "info", "--"], ["--config", "--help", "--json"]),
        (["lake", "a"], ["audit"]),
        (["topics", "--topic", ""], []),  # the value of an option
        (["no-command", "--"], []),
        (["transactions", "force"], ["forceTerminateTransaction"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["server-stop", "--"], ["--broker-id", "--node-id", "--process-role"]),
        # Words of a description are no options.
        (["demo", "--te"], []),
        (["console-users", "--ac"], []),
        (["spark-sinks", "-d"], []),
    ],
)
def test_further_words_are_sub_commands_and_options(words: list[str], expected: list[str]) -> None:
    assert candidates(words) == expected


def test_each_command_has_options_to_complete() -> None:
    without = {"zookeeper-server-stop", "demo", "completion"}
    assert [name for name in COMMANDS if not candidates([name, "-"]) and name not in without] == []


def test_bash_completes_with_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bash"]) == 0
    script = tmp_path / "kavka.bash"
    script.write_text(capsys.readouterr().out)
    shown = "COMP_WORDS=(kavka topics --al); COMP_CWORD=2; _kavka; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", f"source {script}; {shown}"],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "--alter\n"


def completed_by(shell: str, tmp_path: Path, typed: str) -> list[str]:
    """Return what a shell that has the script offers behind what is typed; where it is not installed, skip the test."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "_kavka"
    made = subprocess.run([*KAVKA, "completion", shell], capture_output=True, text=True, check=True)
    script.write_text(made.stdout)
    ask = {
        "fish": f"source {script}; complete -C '{typed}'",
        # Its completion works in the line editor only: what the function hands to it is shown instead.
        "zsh": "compdef() { }; compadd() { shift; print -l -- $found }; _files() { print files }; "
        f"source {script}; "
        f"words=({typed}); [[ '{typed}' == *' ' ]] && words+=(''); CURRENT=$#words; _kavka",
    }[shell]
    done = subprocess.run(
        [program, "-c", ask],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_other_shells_complete_with_their_scripts(shell: str, tmp_path: Path) -> None:
    assert completed_by(shell, tmp_path, "kavka topics --al") == ["--alter"]
    assert completed_by(shell, tmp_path, "kavka storage ") == ["format", "info", "random-uuid"]
    files = completed_by(shell, tmp_path, "kavka dump-log --files _k")
    assert files == ["_kavka" if shell == "fish" else "files"]


@pytest.mark.slow
def test_zsh_needs_no_set_up_of_its_completion(tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    script = tmp_path / "kavka.zsh"
    made = subprocess.run([*KAVKA, "completion", "zsh"], capture_output=True, text=True, check=True)
    script.write_text(made.stdout)
    done = subprocess.run(
        [zsh, "-f", "-c", f"source {script}; print $_comps[kavka]"],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("_kavka\n", "")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["csh"]) == 1
    assert "usage: kavka completion bash|zsh|fish" in capsys.readouterr().err
