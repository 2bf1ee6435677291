"""A cache of compressed files' fingerprints in the directory `--state`, so that a restart need not decompress them.

Without it, or if it is out of date, the fingerprints are computed from the files.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from kavka.collect.delivery import CollectorError
from kavka.collect.files.file_state import FingerprintResult

log = logging.getLogger(__name__)

_FILE = "digests.json"
_MAX_ENTRIES = 4096

Version = tuple[int, int, int, int]
"""Device, inode, size and modification time of a file."""


class FingerprintCache:
    """Fingerprints by the version of a file."""

    def __init__(self, directory: Path | None) -> None:
        """Load the cache of a directory; None keeps it in memory only. Raise OSError, CollectorError."""
        self._path = None if directory is None else directory / _FILE
        self._results: dict[Version, FingerprintResult] = {}
        self._is_changed = False
        if self._path is not None:
            _make_directory(self._path.parent)
            self._results = _read(self._path)

    def get(self, version: Version, offsets: Iterable[int]) -> FingerprintResult | None:
        """Return the fingerprints of a complete file, None unless all of these offsets are cached."""
        result = self._results.get(version)
        if result is None or result.end is None:
            return None
        is_cached = all(
            offset in result.fingerprints or not 0 < offset <= result.end for offset in offsets
        )
        return result if is_cached else None

    def put(self, version: Version, result: FingerprintResult) -> None:
        """Add the fingerprints of a complete file."""
        cached = self._results.pop(version, None)
        fingerprints = {
            **(cached.fingerprints if cached is not None else {}),
            **result.fingerprints,
        }
        self._results[version] = FingerprintResult(result.end, fingerprints)
        while len(self._results) > _MAX_ENTRIES:
            del self._results[next(iter(self._results))]
        self._is_changed = True

    def save(self) -> None:
        """Write the cache if it has changed; a failure is logged, and does no harm."""
        if self._path is None or not self._is_changed:
            return
        self._is_changed = False
        entries = [
            [list(version), result.end, result.fingerprints]
            for version, result in self._results.items()
        ]
        temporary = self._path.with_suffix(".part")
        try:
            temporary.write_text(json.dumps(entries), encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError as error:
            log.warning("state not written path=%s reason=%s", self._path, error.strerror)


def _make_directory(path: Path) -> None:
    """Make the directory of the cache. Raise CollectorError where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectorError(
            f"the directory {path} of --state cannot be made: {error.strerror}; name another one, or leave it out, "
            "since it is only a cache"
        ) from error


def _read(path: Path) -> dict[Version, FingerprintResult]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {
            (int(device), int(inode), int(size), int(mtime_ns)): FingerprintResult(
                int(end),
                {int(offset): str(fingerprint) for offset, fingerprint in fingerprints.items()},
            )
            for (device, inode, size, mtime_ns), end, fingerprints in entries
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        log.warning("state ignored path=%s reason=%s", path, error)
        return {}
