"""Time of the pytest fixture `kavka_cluster`: three brokers in one process that know each other, and their end.

Each round is a process of its own: its first cluster pays for the imports, as in the first test of a run.

Run: .venv/bin/python bench/fixture.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
CLUSTERS = 5  # in each process
GOAL_S = 0.5


def one_process() -> None:
    """Start and end clusters as the fixture does; print the seconds of each as JSON."""
    began = time.perf_counter()
    from kavka.testing.local_cluster import LocalCluster

    rows = []
    for _ in range(CLUSTERS):
        with tempfile.TemporaryDirectory(prefix="kavka-fixture-") as path:
            with LocalCluster(Path(path)):
                ready = time.perf_counter()
            ended = time.perf_counter()
        rows.append((ready - began, ended - ready))
        began = time.perf_counter()
    print(json.dumps(rows))


def main() -> None:
    """Print medians and ranges over the rounds."""
    rounds = []
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        child = [sys.executable, __file__, "one-process"]
        rounds.append(json.loads(subprocess.run(child, check=True, capture_output=True).stdout))
    starts = {
        "first in its process, with imports": [rows[0][0] for rows in rounds],
        "each next one": [start for rows in rounds for start, _ in rows[1:]],
        "end": [end for rows in rounds for _, end in rows],
    }
    for what, seconds in starts.items():
        median = statistics.median(seconds)
        verdict = "reached" if median < GOAL_S else "MISSED"
        spread = f"{min(seconds):.3f}-{max(seconds):.3f}"
        goal = "" if what == "end" else f"  {verdict} (< {GOAL_S})"
        print(f"{what:<36} {median:.3f} s ({spread}){goal}")


if __name__ == "__main__":
    one_process() if sys.argv[1:] == ["one-process"] else main()
