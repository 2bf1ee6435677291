"""A file's bytes without reading them all: a read-only map."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kavka.io import Buffer


@contextmanager
def mapped(path: Path) -> Iterator[Buffer]:
    """Yield the bytes of a file; no view of them may outlive the `with`. Raise OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        # The map is closed when its last view is gone: a failure on the way may still hold one.
        yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
