"""The paths that patterns match: those of `glob`, but `**` visits each directory once.

Links between directories make cycles. `glob` goes around them until the system refuses the path, with two links in one
directory along 2^40 paths.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence

_ANY_DEPTH = "**"


def matching_paths(patterns: Sequence[str]) -> set[str]:
    """Return the paths that match; what cannot be read is left out."""
    return {path for pattern in patterns for path in _matching(pattern)}


def _matching(pattern: str) -> Iterator[str]:
    parts = pattern.split(os.sep)
    if _ANY_DEPTH not in parts:
        yield from glob.iglob(pattern)
        return
    index = parts.index(_ANY_DEPTH)
    before = os.sep.join(parts[:index])
    rest = os.sep.join(parts[index + 1 :]) or "*"
    tops = glob.iglob(before) if before else [os.sep if pattern.startswith(os.sep) else ""]
    seen: set[tuple[int, int]] = set()
    for top in sorted(tops):
        for directory in _directories(top, seen):
            yield from _matching(os.path.join(glob.escape(directory), rest))


def _directories(top: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    """Yield a directory and those below it, without hidden ones, each once."""
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        try:
            status = os.stat(directory or os.curdir)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory or os.curdir) as entries:
                names = sorted(entry.name for entry in entries if entry.name[0] != ".")
        except OSError:
            continue  # removed since its parent was read, or closed to this user
        yield directory
        below = (os.path.join(directory, name) for name in reversed(names))
        waiting += filter(os.path.isdir, below)
