"""Time of the pytest plugin: its process and first broker up to a record, further clusters, beside a bare Python.

Each round is a process of its own: its first broker pays for the process and the imports, as in the first test of a
run. Times are of the clock; the processor's is that of the brokers' process, or of the bare one.

Run: .venv/bin/python bench/fixture.py
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 7
GOAL_S = 0.5


def one_process() -> None:
    """Start brokers as the plugin does; print the seconds of each step as JSON."""
    from kavka.testing.cluster import Cluster
    from kavka.testing.host_process import HostProcess

    rows: dict[str, float] = {}
    began = time.perf_counter()

    def step(name: str) -> None:
        nonlocal began
        rows[name] = time.perf_counter() - began
        began = time.perf_counter()

    with tempfile.TemporaryDirectory(prefix="kavka-fixture-") as path:
        host = HostProcess(Path(path) / "log")
        shared = Cluster(host, Path(path) / "shared", has_registry=False)
        step("process and first broker")
        topic = shared.topic("t")
        topic.send("a")
        step("topic and first record")
        topic.records()
        step("records read, first time")
        topic.records()
        step("records read again")
        with Cluster(host, Path(path) / "three", brokers=3):
            step("three brokers more")
        began = time.perf_counter()
        host.end()
        step("end")
    rows["processor time of all"] = _child_cpu_s()
    print(json.dumps(rows))


def bare() -> None:
    """Start a Python that does nothing; print its seconds as JSON."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    rows = {"bare Python": time.perf_counter() - began, "bare processor time": _child_cpu_s()}
    print(json.dumps(rows))


def _child_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STEPS: dict[str, Callable[[], None]] = {"bare": bare, "plugin": one_process}


def main() -> None:
    """Print medians and ranges over the rounds."""
    found: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        for step in STEPS:
            child = subprocess.run(
                [sys.executable, __file__, step], check=True, capture_output=True
            )
            for name, seconds in json.loads(child.stdout).items():
                found.setdefault(name, []).append(seconds)
    for name, seconds in found.items():
        spread = f"{min(seconds):.3f}-{max(seconds):.3f}"
        print(f"{name:<28} {statistics.median(seconds):.3f} s ({spread})")
    start = statistics.median(found["process and first broker"])
    ratio = start / statistics.median(found["bare Python"])
    print(
        f"start: {ratio:.1f} bare starts; goal {GOAL_S} s: {'met' if start < GOAL_S else 'MISSED'}"
    )


if __name__ == "__main__":
    STEPS[sys.argv[1]]() if sys.argv[1:] else main()
