"""All benchmarks of the page one after the other, and the page from what they wrote: `make bench-all`.

QUICK, ROUNDS and ONLY in the environment reach each benchmark; a quick run, one of fewer than three rounds, one that
ended early or one with ONLY is not published. Each benchmark's output is in bench/results/all-DATE.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

from apache.results import print_now

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "bench" / "results"
_PAGE = _ROOT / "scripts" / "benchmarks_page.py"
TARGETS = (
    "bench",
    "bench-load",
    "bench-cluster",
    "bench-transactions",
    "bench-security",
    "bench-clients",
    "bench-failover",
    "bench-partitions",
    "bench-connections",
    "bench-pipelines",
)


def main(targets: Sequence[str]) -> int:
    """Run the targets, publish the results; return the exit code: 1 when one has failed."""
    began = time.time()
    logs = _RESULTS / f"all-{time.strftime('%Y%m%d-%H%M%S')}"
    logs.mkdir(parents=True)
    failed = []
    for number, target in enumerate(targets, start=1):
        print_now(f"{number} of {len(targets)}: make {target}, {_minutes(began)} so far")
        with (logs / f"{target}.log").open("wb") as log:
            if _run(target, log) != 0:
                failed.append(target)
                print_now(f"make {target} failed: {log.name}")
    known: Collection[str] = runpy.run_path(str(_PAGE))["BENCHMARKS"]
    # a run of some lines would take the place of one of all lines
    published = [] if os.environ.get("ONLY") else publishable(_RESULTS, began, known)
    subprocess.run([sys.executable, _PAGE, *published], check=True)
    names = ", ".join(path.name for path in published) or "nothing"
    print_now(f"{_minutes(began)}; published: {names}; failed: {', '.join(failed) or 'none'}")
    print_now(f"output of each benchmark: {logs}")
    return 1 if failed else 0


def publishable(results: Path, since: float, known: Collection[str]) -> list[Path]:
    """Return the results of known names, written since then, of at least three rounds, whole and not quick."""
    found = []
    for path in sorted(results.glob("*.json")):
        if path.stat().st_mtime >= since:
            result = json.loads(path.read_text(encoding="utf-8"))
            is_whole = not result["quick"] and not result.get("missing")
            if result["name"] in known and is_whole and result["rounds"] >= 3:
                found.append(path)
    return found


def _run(target: str, log: IO[bytes]) -> int:
    """Run a target, with its output on the terminal and in `log`; return its exit code."""
    command = ["make", "--no-print-directory", target]
    with subprocess.Popen(
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return process.returncode


def _minutes(since: float) -> str:
    return f"{(time.time() - since) / 60:.0f} minutes"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or TARGETS))
