"""Files that are replaced at once: a reader finds the old one or the new one, after a power cut as well."""

from __future__ import annotations

import os
from pathlib import Path


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file that is on the disk when this returns; `mode` is that of one which is new. Raise OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def move_synced(source: Path, target: Path) -> None:
    """Give a file the name of another one in its directory, for good when this returns. Raise OSError."""
    source.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace_file(path: Path, data: bytes, temporary: Path) -> None:
    """Replace a file; `temporary` is in its directory. Raise OSError."""
    write_synced(temporary, data)
    move_synced(temporary, path)
