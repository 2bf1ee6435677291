"""Archives of classes, with which Kafka's tools start in half of the processor time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from kavka_compat.artifacts import java

_QUIET = "-Xlog:disable"
"""An archive that does not fit is left alone without a word; tools write what is compared to standard output."""


class ClassArchive:
    """The classes of one class path as the Java machine keeps them in memory (dynamic archives, JEP 350)."""

    def __init__(self, directory: Path, jars: Sequence[Path]) -> None:
        """Have an archive in `directory`, if one was made of these jars by this Java."""
        parts = [Path(java()).resolve(), *jars]
        stamps = [f"{part} {part.stat().st_mtime_ns}" for part in parts]
        name = hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:16]
        self._path = directory / f"{name}.jsa"
        self._new_path = directory / f"{name}.{os.getpid()}.new"

    @property
    def is_made(self) -> bool:
        """Return whether there is an archive."""
        return self._path.exists()

    def reading(self) -> list[str]:
        """Return the options to start with it, none while it is not made."""
        return [_QUIET, f"-XX:SharedArchiveFile={self._path}"] if self.is_made else []

    def making(self) -> list[str]:
        """Return the options with which a program makes one of what it has loaded when it ends."""
        return [_QUIET, f"-XX:ArchiveClassesAtExit={self._new_path}"]

    def made(self, *, is_good: bool) -> None:
        """Keep what such a program has left, if it did what it was to do."""
        if is_good and self._new_path.exists():
            self._new_path.replace(self._path)
        self._new_path.unlink(missing_ok=True)
