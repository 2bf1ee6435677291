"""Files of an embedded catalogue, which are on the disk when they are closed.

SQLite's rows survive a failure of power, so what they name must, too: otherwise a table would name metadata that is
not there any more.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

_LOCAL = "file"
_FOLDERS = 6


class SyncedFileIO(PyArrowFileIO):  # type: ignore[misc]
    """PyArrow's files; local ones are forced to the disk."""

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        output = super().new_output(location)
        scheme, _, path = self.parse_location(location, self.properties)
        return _SyncedOutput(output, path) if scheme == _LOCAL else output


class _SyncedOutput(OutputFile):  # type: ignore[misc]
    """An output file on the local disk."""

    def __init__(self, inner: OutputFile, path: str) -> None:
        super().__init__(location=inner.location)
        self._inner = inner
        self._path = path

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        """Return whether it is there."""
        is_present: bool = self._inner.exists()
        return is_present

    def to_input_file(self) -> Any:
        """Return it as a file to read."""
        return self._inner.to_input_file()

    def create(self, overwrite: bool = False) -> _SyncedStream:
        """Open it for writing."""
        return _SyncedStream(self._inner.create(overwrite=overwrite), self._path)


class _SyncedStream:
    """A stream whose bytes, and whose name in its directory, are on the disk when it is closed."""

    def __init__(self, inner: OutputStream, path: str) -> None:
        self._inner = inner
        self._path = path
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write."""
        count: int = self._inner.write(data)
        return count

    def tell(self) -> int:
        """Return the position."""
        position: int = self._inner.tell()
        return position

    def flush(self) -> None:
        """Flush the buffer."""
        self._inner.flush()

    def close(self) -> None:
        """Close, and wait for the disk. Calling it twice is allowed."""
        if self.closed:
            return
        self.closed = True
        self._inner.close()
        # The folders above may be new, too: a partition has one for each of its fields.
        for path in (self._path, *map(str, Path(self._path).parents[:_FOLDERS])):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
