"""Progress of a benchmark on standard output, and its samples as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from apache.report import Line, as_json

RESULTS = Path(__file__).resolve().parent.parent / "results"

More = Callable[[Sequence[Line]], Mapping[str, object]]
"""Returns the rest of a result, for the lines that are measured so far; it may have other `lines`."""


def write_results(name: str, rounds: int, quick: bool, measured: Mapping[str, object]) -> Path:
    """Write what was measured, and on which machine, into bench/results; return the new file.

    `make bench-report RESULT=FILE` publishes it.
    """
    path = _new_path(name)
    _write(path, name, rounds, quick, measured)
    return path


class Parts:
    """The parts of a run, whose result is written after each of them.

    A run that fails or is stopped keeps what it has measured: its file has the other parts as `missing`, and is not
    published. As a context it prints them then.
    """

    def __init__(
        self,
        name: str,
        rounds: int,
        quick: bool,
        parts: Iterable[str],
        more: More = lambda _: {},
    ) -> None:
        self._name = name
        self._rounds = rounds
        self._quick = quick
        self._more = more
        self.path = _new_path(name)
        self.missing = list(parts)
        self.lines: list[Line] = []

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *error: object) -> None:
        if self.missing:
            kept = (
                f"the lines before are in {self.path}" if self.path.exists() else "nothing is kept"
            )
            print_now(f"the run ended without: {'; '.join(self.missing)}; {kept}")

    def add(self, part: str, lines: Iterable[Line]) -> None:
        """Keep the lines of a part, and write all so far."""
        self.missing.remove(part)
        self.lines += lines
        measured = {"lines": as_json(self.lines), **self._more(self.lines), "missing": self.missing}
        _write(self.path, self._name, self._rounds, self._quick, measured)


def print_now(text: str) -> None:
    """Print how far the run is."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def _new_path(name: str) -> Path:
    return RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"


def _write(path: Path, name: str, rounds: int, quick: bool, measured: Mapping[str, object]) -> None:
    """Write a result in the place of the one before: a run that ends now leaves one of both whole."""
    path.parent.mkdir(exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
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
    new = path.with_suffix(".new")
    new.write_text(json.dumps({**about, **measured}, indent=1) + "\n", encoding="utf-8")
    new.replace(path)
