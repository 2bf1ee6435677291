"""The demo as a user runs it: a process, its output, its exit code, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kavka
from kavka.demo.access_log import read_access_log
from kavka.demo.line import LogLine, combined
from kavka.demo.site import START_MS, Site
from support.waiting import wait_until

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


def write_log(path: Path) -> list[LogLine]:
    """Write an access log of 3,000 lines, and one two hours later, by which all windows before it are over."""
    lines = Site(5).lines()
    texts = [next(lines).text for _ in range(3000)]
    texts.append(combined("end", START_MS + 3 * 3_600_000, "GET /", 200, 5, "-", "-").encode())
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return list(read_access_log(path))


def expected_alerts(lines: list[LogLine]) -> set[tuple[str, str, int]]:
    """Count alerts (kind, visitor, minute) as the page about the template says, without the pipeline's code."""
    requests: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    for line in lines:
        if line.event_ms is not None and line.arrived_ms - line.event_ms <= 600_000:
            requests[line.visitor, line.event_ms // 60_000].append(line.text)
    found = set()
    for (visitor, minute), texts in requests.items():
        if any(b"Bot" in text or b"Spider" in text for text in texts):
            if len(texts) > 30 or any(b" /private/" in text for text in texts):
                found.add(("crawler", visitor, minute))
        elif len(texts) > 60:
            found.add(("abuser", visitor, minute))
    return found


def committed_values(bootstrap: str, topic: str) -> list[Any]:
    """Read a topic of two partitions with librdkafka, committed records alone."""
    from support.committed import committed_messages

    found = committed_messages(bootstrap, topic, range(2))
    return [json.loads(message.value()) for message in found]


def test_the_demo_accounts_for_every_line_and_leaves_its_report_and_nothing_else(
    tmp_path: Path,
) -> None:
    log, report = tmp_path / "access.log", tmp_path / "report.html"
    lines = write_log(log)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(
        temporary, "--access-log", str(log), "--duration", "3", "--keep", "--report", str(report)
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "PySpark:" in line:
            break
    [bootstrap] = re.findall(r"The broker is at (\S+) until Ctrl-C", said) or [said]
    alerts = committed_values(bootstrap, "demo-alerts")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, said + out + err
    assert said.index("] warming up: ") < said.index("] playing: ")
    assert "Audit of 3,001 records" in said
    assert said.count("  ok   ") == 19
    assert "FAIL" not in said
    assert not re.search(r"flow (lines|on_time) ", said), "temporary views are no live flows"

    found = [
        (one["kind"], one["visitor"], int(datetime.fromisoformat(one["minute"]).timestamp()) // 60)
        for one in alerts
    ]
    assert sorted(found) == sorted(expected_alerts(lines))
    assert len(found) > 5

    page = report.read_text()
    assert f"Report: {report}" in said
    assert page.count("<svg") == 4
    assert all(visitor in page for _, visitor, _ in found)
    assert list(temporary.iterdir()) == []
    assert mentioning(temporary) == []


@pytest.mark.parametrize("phase", ["warming up", pytest.param("playing", marks=pytest.mark.long)])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, phase: str) -> None:
    report = tmp_path / "report.html"
    process = start(tmp_path, "--duration", "60", "--report", str(report))
    assert process.stdout is not None
    for line in process.stdout:
        if f"] {phase}: " in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "finish their batches" not in out, "what they would finish is thrown away"
    # The JVM ends when its parent has closed the pipe.
    wait_until(lambda: mentioning(tmp_path) == [], 90, lambda: str(mentioning(tmp_path)))
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


@pytest.mark.parametrize("name", ["", "no/such/folder.html"])
def test_a_report_that_cannot_be_written_is_one_sentence_before_anything_starts(
    tmp_path: Path, name: str
) -> None:
    process = start(tmp_path, "--report", str(tmp_path / name))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "--report" in err
