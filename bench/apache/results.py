"""Progress of a benchmark on standard output, and its samples as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

_RESULTS = Path(__file__).resolve().parent.parent / "results"


def write_results(name: str, rounds: int, quick: bool, measured: Mapping[str, object]) -> Path:
    """Write what was measured, and on which machine, into bench/results; return the new file.

    `make bench-report RESULT=FILE` publishes it.
    """
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=_RESULTS, capture_output=True, text=True, check=False
    )
    about = {
        "name": name,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": commit.stdout.strip(),
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "python": platform.python_version(),
        "rounds": rounds,
        "quick": quick,
        "load": os.getloadavg()[2],
    }
    path.write_text(json.dumps({**about, **measured}, indent=1) + "\n")
    return path


def print_now(text: str) -> None:
    """Print how far the run is."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)
