"""Marks of compressed files, kept in a file of `--state` so that a restart need not decompress them again.

It is a cache: without it, or with an old one, the marks are made from the files.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from kavka.collect.files.tracked import Digests

log = logging.getLogger(__name__)

_FILE = "digests.json"
_MAX_ENTRIES = 4096

Version = tuple[int, int, int, int]
"""Device, inode, size and time of change of a file."""


class DigestCache:
    """Marks by the version of a file."""

    def __init__(self, directory: Path | None) -> None:
        """Read what a directory has; without one, forget everything at the end. Raise OSError."""
        self._path = None if directory is None else directory / _FILE
        self._known: dict[Version, Digests] = {}
        self._is_changed = False
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._known = _read(self._path)

    def get(self, version: Version, offsets: Iterable[int]) -> Digests | None:
        """Return the marks of a file that is complete, None unless all of these offsets are known."""
        found = self._known.get(version)
        if found is None or found.end is None:
            return None
        is_known = all(offset in found.marks or not 0 < offset <= found.end for offset in offsets)
        return found if is_known else None

    def put(self, version: Version, digests: Digests) -> None:
        """Remember the marks of a file that is complete."""
        before = self._known.pop(version, None)
        marks = {**(before.marks if before is not None else {}), **digests.marks}
        self._known[version] = Digests(digests.end, marks)
        while len(self._known) > _MAX_ENTRIES:
            del self._known[next(iter(self._known))]
        self._is_changed = True

    def save(self) -> None:
        """Write what has changed; a cache that cannot be written is said once and not needed."""
        if self._path is None or not self._is_changed:
            return
        self._is_changed = False
        entries = [
            [list(version), found.end, found.marks] for version, found in self._known.items()
        ]
        part = self._path.with_suffix(".part")
        try:
            part.write_text(json.dumps(entries), encoding="utf-8")
            os.replace(part, self._path)
        except OSError as error:
            log.warning("state not written path=%s reason=%s", self._path, error.strerror)


def _read(path: Path) -> dict[Version, Digests]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {
            (int(v[0]), int(v[1]), int(v[2]), int(v[3])): Digests(
                int(end), {int(offset): str(mark) for offset, mark in marks.items()}
            )
            for v, end, marks in entries
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        log.warning("state ignored path=%s reason=%s", path, error)
        return {}
