"""Files of which a test says what is in the page cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.storage.disk.os_disk import OsFile


class ProbedFile(OsFile):
    """A file whose `is_cached` is a test's: what is cached can be read without blocking."""

    __slots__ = ()

    def read_cached(self, length: int, position: int) -> bytes | None:
        return self.read_at(length, position) if self.is_cached(length, position) else None


def patch_cached(
    monkeypatch: pytest.MonkeyPatch,
    is_cached: Callable[[OsFile, int, int], bool] = lambda *_place: False,
) -> None:
    """Let `is_cached` say of all files what is in the page cache: nothing, unless it is given."""
    monkeypatch.setattr(OsFile, "is_cached", is_cached)
    monkeypatch.setattr(OsFile, "read_cached", ProbedFile.read_cached)
