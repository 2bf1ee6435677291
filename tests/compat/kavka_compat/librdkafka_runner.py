"""The runner of librdkafka's own tests: what it reads, one process for each test, and what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kavka_compat.artifacts import jars, java

_KAFKA_VERSION = "3.9.0"
"""The release of Kafka that the runner takes our brokers for."""
_SECONDS = 600


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test."""

    name: str
    state: str
    seconds: float
    log: Path
    reason: str = ""

    def __str__(self) -> str:
        """Say which test, and why it was skipped."""
        return f"{self.name} {self.reason}".rstrip()


class Runner:
    """The test runner against one cluster, in one scenario."""

    def __init__(
        self,
        source: Path,
        directory: Path,
        bootstrap: str,
        scenario: str = "default",
        *,
        client: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        tools_bootstrap: str | None = None,
    ) -> None:
        """Write what the runner reads: `client` are settings of librdkafka. Scripts connect to `tools_bootstrap`."""
        self._tests = source / "tests"
        self._directory = directory
        configuration = directory / "test.conf"
        lines = {
            "bootstrap.servers": bootstrap,
            "test.timeout.multiplier": "2",
            **(client or {}),
        }
        configuration.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        tools = directory / "bin"
        tools.mkdir()
        classes = ":".join(["$CLASSPATH", *map(str, jars("3.9"))])
        for name, command in (
            ("kafka-acls.sh", f"{sys.executable} -m kavka acls"),
            ("kafka-topics.sh", f"{sys.executable} -m kavka topics"),
            ("kafka-run-class.sh", f"{java()} -Xmx256m -cp {classes}"),
        ):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            script.chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "CI"},
            "BROKERS": tools_bootstrap or bootstrap,
            "KAFKA_PATH": str(directory),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "RDKAFKA_TEST_CONF": str(configuration),
            "TEST_KAFKA_VERSION": _KAFKA_VERSION,
            "TEST_SCENARIO": scenario,
            **(environment or {}),
        }

    def run(self, number: str, quick: bool, parts: Sequence[str] = ("",)) -> list[Outcome]:
        """Run the tests of one number; the states of those of another scenario and without brokers are SKIPPED."""
        return [outcome for part in parts for outcome in self._run(number, part, quick)]

    def _run(self, number: str, part: str, quick: bool) -> list[Outcome]:
        name = f"{number}-{part}" if part else number
        report, log = (self._directory / f"{name}.{end}" for end in ("json", "log"))
        more = {"TESTS": number, "TEST_REPORT": str(report)}
        if part:
            more["SUBTESTS"] = part
        with log.open("wb") as sink:
            try:
                subprocess.run(
                    ["./test-runner", "-p1", "-L", *(["-Q"] if quick else [])],
                    cwd=self._tests,
                    env={**self._environment, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    timeout=_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return [Outcome(name, "TIMED OUT", _SECONDS, log)]
        if not report.exists():
            return [Outcome(name, "CRASHED", 0, log)]
        tests = json.loads(report.read_text())["tests"].values()
        return [
            Outcome(
                f"{test['name']} {part}".rstrip(),
                test["state"],
                test["duration"],
                log,
                test["extra"],
            )
            for test in tests
            if test["name"] != "<MAIN>" and test["state"] != "DNS"
        ]
