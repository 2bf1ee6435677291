"""Outcomes of seeds in a file, so that a run of many hours can be stopped and resumed.

JSON lines: the first names the scenario and the code; each other one is the outcome of a seed. A line that was
torn by a stop is removed. A file belongs to one state of the code, in any commit: outcomes of other code prove
nothing about it. One process at a time uses it.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kavka.simulation.batch import Kind, Outcome

_BEGINNING = b'{"plays": '
"""Of a first line that a stop has torn."""


class LedgerMismatch(ValueError):
    """The file is no ledger, or that of other runs or other code, or in use."""


class Ledger:
    """The file and what is in it."""

    def __init__(self, path: Path, kind: Kind, brokers: int | None, code: str, commit: str) -> None:
        """Read the file, or begin it. Raise LedgerMismatch, and OSError when it cannot be read or written.

        `code` is the digest of the code that is played, `commit` a name for it, which the file keeps.
        """
        self.commit = commit
        """The name that the code had when the file was begun."""
        self.outcomes: dict[int, Outcome] = {}
        """By seed."""
        self._file = path.open("ab+")
        try:
            self._lock(path)
            head = {"plays": kind.value, "brokers": brokers, "code": code}
            self._load(path, head | {"commit": commit})
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerMismatch(f"{path} is in use by another process") from error

    def _load(self, path: Path, head: dict[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if content and not lines and not content.startswith(_BEGINNING):
            raise LedgerMismatch(f"{path} is no ledger of seeds: {content[:80]!r}")
        if lines:
            found = _object(lines[0], path)
            self.commit = str(found.pop("commit", "unknown"))
            if found != {name: value for name, value in head.items() if name != "commit"}:
                raise LedgerMismatch(f"{path} is of other runs than {head}: {lines[0].decode()}")
        for line in lines[1:]:
            outcome = _outcome(_object(line, path), path)
            self.outcomes[outcome.seed] = outcome
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
