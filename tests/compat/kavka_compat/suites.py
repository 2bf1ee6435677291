"""The run of another project's test suite by pytest, with a plugin of ours that gives it our broker or registry."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent.parent
_OUTCOMES = ("PASSED", "FAILED", "ERROR", "SKIPPED")


def run_suite(
    plugin: str,
    tests: Sequence[str],
    root: Path,
    report: Path,
    *,
    prefix: str,
    timeout_s: int = 120,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run `tests` in the directory `root` with a module of this package as `plugin`; return each test's outcome.

    The output goes to `report`. Test ids in the result lack `prefix`, with which all ids of the suite begin.
    Raise AssertionError when the report has no outcome.
    """
    command = [
        *(sys.executable, "-m", "pytest", "-p", f"kavka_compat.{plugin}", "-c", os.devnull),
        *("--rootdir", str(root), "-p", "no:cacheprovider", f"--timeout={timeout_s}", "-q", "-rA"),
        *(*options, *tests),
    ]
    paths = f"{TESTS}:{TESTS / 'compat'}"
    variables = {**os.environ, "PYTHONPATH": paths, **(environment or {})}
    with report.open("wb") as sink:
        subprocess.run(command, cwd=root, env=variables, stdout=sink, stderr=sink, check=False)
    text = report.read_text()
    found = {}
    for line in text.splitlines():
        outcome, _, rest = line.partition(f" {prefix}")
        if outcome in _OUTCOMES:
            found[rest.split(" - ")[0]] = outcome
    assert found, text[-5000:]
    return found
