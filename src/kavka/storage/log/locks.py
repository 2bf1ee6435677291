"""The locks of one log: which work on its files waits for which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import LogDirectoryFailed


class LogLocks:
    """Taken in the order of the attributes."""

    __slots__ = ("_directory", "checkpoints", "flush", "is_truncating", "names")

    def __init__(self, directory: LogDirectory) -> None:
        """Create the locks, none of them held."""
        self._directory = directory
        self.flush = asyncio.Lock()
        self.checkpoints = asyncio.Lock()
        """Held while snapshots or leader epochs are written, so that none of them outlives a truncation."""
        self.names = asyncio.Lock()
        """Held while segments' files are renamed."""
        self.is_truncating = False

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Exclude flushes, retention and writers of epochs and snapshots while the log's segments change.

        Queued writes of the log are done before. Raise LogDirectoryFailed when the directory is offline.
        """
        async with self.flush, self.checkpoints:
            self.is_truncating = True
            try:
                await self._directory.writes.reached()
                self._directory.check()
                yield
            except LogDirectoryFailed:
                raise
            except OSError as error:
                raise self._directory.fail(error) from error
            finally:
                self.is_truncating = False
