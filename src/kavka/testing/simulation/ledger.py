"""Outcomes of seeds in a file, so that a run of many hours can be stopped and goes on where it was.

JSON lines: the first says what is played, each other one is the outcome of a seed. A line that a stop has torn is
cut off. A file belongs to one state of the code: another one's outcomes say nothing about it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kavka.testing.simulation.batch import Kind, Outcome


class LedgerMismatch(ValueError):
    """The file is no ledger, or that of other runs."""


class Ledger:
    """The file and what is in it."""

    def __init__(self, path: Path, kind: Kind, brokers: int | None) -> None:
        """Read the file, or begin it. Raise LedgerMismatch, and OSError when it cannot be read or written."""
        self.outcomes: dict[int, Outcome] = {}
        """By seed."""
        head = {"plays": kind.value, "brokers": brokers}
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if lines and _object(lines[0], path) != head:
            raise LedgerMismatch(f"{path} is of other runs than {head}: {lines[0].decode()}")
        for line in lines[1:]:
            outcome = _outcome(_object(line, path), path)
            self.outcomes[outcome.seed] = outcome
        self._file = path.open("ab")
        self._file.truncate(len(whole))
        if not lines:
            self._write(head)

    def add(self, outcome: Outcome) -> None:
        """Write an outcome down before the next one."""
        self.outcomes[outcome.seed] = outcome
        self._write(asdict(outcome))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value).encode() + b"\n")
        self._file.flush()


def _object(line: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise LedgerMismatch(f"{path} is no ledger of seeds: {line[:80]!r}") from error
    if not isinstance(value, dict):
        raise LedgerMismatch(f"{path} is no ledger of seeds: {line[:80]!r}")
    return value


def _outcome(value: dict[str, Any], path: Path) -> Outcome:
    try:
        return Outcome(**value | {"marks": tuple(value["marks"])})
    except (KeyError, TypeError) as error:
        raise LedgerMismatch(f"{path} holds what is no outcome: {value}") from error
