"""A file's bytes without reading them all: a read-only map."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kavka.io import Buffer


@contextmanager
def mapped(path: Path) -> Iterator[Buffer]:
    """Yield the bytes of a file; no view of them may outlive the `with`. Raise OSError."""
    _insist_on_a_file(path)
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        # The map is closed when its last view is gone: a failure on the way may still hold one.
        yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def regular_content(path: Path) -> bytes:
    """Return the bytes of a file. Raise OSError, also for a device or a pipe, which may have no end."""
    _insist_on_a_file(path)
    return path.read_bytes()


def _insist_on_a_file(path: Path) -> None:
    if path.exists() and not path.is_file():
        number = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(number, os.strerror(number), str(path))
