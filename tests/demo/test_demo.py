"""The demo as a user runs it: a process, its output, its exit code, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kavka
from kavka.demo.site import Site

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SOURCES = Path(kavka.__file__).parents[1]


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "TMPDIR": str(directory)}
    return subprocess.Popen(
        [sys.executable, "-m", "kavka", "demo", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def mentioning(directory: Path) -> list[str]:
    """Command lines of processes that were started for the demo in this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


def test_the_demo_accounts_for_every_line_and_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    lines = Site(5).lines()
    log.write_bytes(b"".join(next(lines).text + b"\n" for _ in range(3000)))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(temporary, "--access-log", str(log), "--duration", "3")
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert out.index("] warming up: ") < out.index("] playing: ")
    assert "Audit of 3,000 records" in out
    assert out.count("  ok   ") == 11
    assert "lines to play = records sent: 3,000 = 3,000" in out
    assert "FAIL" not in out
    assert list(temporary.iterdir()) == []
    assert mentioning(temporary) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    process = start(tmp_path, "--duration", "60")
    assert process.stdout is not None
    for line in process.stdout:
        if "playing" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=150)
    assert process.returncode == 130, err
    assert "interrupted" in err
    deadline = time.monotonic() + 90
    while mentioning(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)  # the JVM ends when its parent has closed the pipe
    assert mentioning(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    process = start(tmp_path, "--access-log", str(tmp_path / "none.log"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert "none.log" in err


def test_a_missing_java_is_one_sentence_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    process = start(tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == (
        "kavka demo: Spark needs Java 17: install a JDK 17 (Debian: openjdk-17-jre-headless)\n"
    )
