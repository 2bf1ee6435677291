"""The file of rules on the disk: read with its digest, and replaced at once where it has not changed since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kavka.console.alerts.editing import CannotEdit, edited
from kavka.console.alerts.located import Problem
from kavka.console.alerts.rules import parse
from kavka.console.sentences import say
from kavka.files import move_synced, write_synced


class ChangedMeanwhile(Exception):
    """The file is not the one that was looked at."""


class HasMistakes(Exception):
    """The file would have mistakes."""

    def __init__(self, problems: list[Problem]) -> None:
        """Take the mistakes."""
        super().__init__(problems[0].sentence)
        self.problems = problems


def read(path: Path) -> tuple[str, str]:
    """Return the text of a file and its digest. Raise OSError, CannotEdit."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8"), digest_of(data)
    except UnicodeDecodeError:
        raise CannotEdit(say("the file is not UTF-8")) from None


def digest_of(data: bytes) -> str:
    """Return the digest by which a change of the file is seen."""
    return hashlib.sha256(data).hexdigest()[:24]


def edit(
    path: Path, digest: str, name: str, entry: Mapping[str, Any] | None, *, check: bool
) -> None:
    """Change one rule as `editing.edited` does, or only check whether it could be.

    Raise ChangedMeanwhile, CannotEdit, HasMistakes, OSError.
    """
    text, found = read(path)
    if found != digest:
        raise ChangedMeanwhile
    made = edited(text, name, entry)
    _, problems = parse(made, path.parent)
    if problems:
        raise HasMistakes(problems)
    if not check:
        _replace(path.resolve(), made.encode(), digest)


def _replace(path: Path, data: bytes, digest: str) -> None:
    """Replace a file by one with its owner and mode, unless it has changed. Raise ChangedMeanwhile, OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    status = path.stat()
    try:
        write_synced(new, data, 0o600)
        with suppress(PermissionError):  # only root gives a file to another
            os.chown(new, status.st_uid, status.st_gid)
        new.chmod(status.st_mode & 0o777)
        if digest_of(path.read_bytes()) != digest:
            raise ChangedMeanwhile
        move_synced(new, path)
    finally:
        new.unlink(missing_ok=True)
