"""Removal of the files of segments that left a log: they are renamed first, and removed later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kavka.storage.log.context import LogContext
from kavka.storage.log.locks import LogLocks
from kavka.storage.segment.segment import DELETED_SUFFIX, Segment


class SegmentRemoval:
    """Removes files of one log after `file.delete.delay.ms`."""

    def __init__(self, context: LogContext, locks: LogLocks) -> None:
        """Rename under the lock of names."""
        self._context = context
        self._locks = locks

    async def retire(self, segments: Sequence[Segment]) -> None:
        """Rename the files of segments that left the log, the newest first, and remove them later.

        Readers that have them pinned continue.
        """
        renames = [
            data.retire(DELETED_SUFFIX) for segment in reversed(segments) for data in segment.files
        ]
        await self.rename_and_remove(renames)

    async def rename_and_remove(self, renames: Sequence[tuple[str, str]]) -> None:
        """Rename files from their old to their new names, and remove them later. Raise OSError."""
        # One after the other, and none after one that failed: what a stop leaves must not have a hole.
        async with self._locks.names:
            self._context.directory.check()
            names = await self._context.directory.disk.run(self._context.files.rename_all, renames)
        self._context.directory.remove_later(
            partial(self._context.files.remove_for_good, names),
            self._context.config.file_delete_delay_ms,
        )
