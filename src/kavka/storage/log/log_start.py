"""Removal of the start of a log: DeleteRecords and retention."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kavka.storage.disk.partition_directory import DataFile
from kavka.storage.failures import OffsetOutOfRange
from kavka.storage.log.cleaning_state import CleaningState
from kavka.storage.log.context import LogContext
from kavka.storage.log.locks import LogLocks
from kavka.storage.log.producer_snapshot import snapshot_name
from kavka.storage.log.removal import SegmentRemoval
from kavka.storage.log.retention import Retention
from kavka.storage.log.segments import LogSegments
from kavka.storage.log.small_files import SmallFiles
from kavka.storage.log.writer import LogWriter
from kavka.storage.segment.segment import DELETED_SUFFIX

logger = logging.getLogger(__name__)


class LogStart:
    """Moves the log start offset up, and removes the segments below it and those beyond retention."""

    def __init__(
        self,
        context: LogContext,
        segments: LogSegments,
        small_files: SmallFiles,
        writer: LogWriter,
        cleaning: CleaningState,
        removal: SegmentRemoval,
        locks: LogLocks,
    ) -> None:
        """Remove from the start of `segments`; `writer` rolls when all of them go."""
        self._context = context
        self._segments = segments
        self._small_files = small_files
        self._writer = writer
        self._cleaning = cleaning
        self._removal = removal
        self._locks = locks

    def delete_before(self, offset: int, high_watermark: int) -> int:
        """Move the log start offset up to `offset` (DeleteRecords) and return it.

        Whole segments below it go with the next `delete_old_segments`. Raise OffsetOutOfRange above the high watermark.
        """
        if offset > high_watermark:
            raise OffsetOutOfRange(offset, self._segments.log_start_offset, high_watermark)
        if offset > self._segments.log_start_offset:
            self._segments.log_start_offset = offset
            self._small_files.epochs.truncate_from_start(offset)
        return self._segments.log_start_offset

    def delete_old_segments(self, high_watermark: int) -> int:
        """Remove whole segments below the log start offset, older than retention.ms, or beyond retention.bytes.

        None above the high watermark goes; what stays is never below retention.bytes. Return how many segments went:
        none of a closed log, which is deleted, or has another in its place in a moment.
        """
        self._context.directory.check()
        if self._context.is_closed or self._locks.is_truncating or self._cleaning.is_running:
            return 0
        retention = Retention(
            self._segments.all,
            self._context.config,
            self._segments.log_start_offset,
            self._segments.end_offset,
            high_watermark,
            self._context.directory.clock.now_ms(),
        )
        count = retention.count()
        if count:
            try:
                self._delete_oldest(count)
            except OSError as error:
                raise self._context.directory.fail(error) from error
        return count

    def _delete_oldest(self, count: int) -> None:
        if count == len(self._segments.all):
            self._writer.roll_at(self._segments.end_offset)
        going = self._segments.remove_oldest(count)
        start = self._segments.first_offset
        if start > self._segments.log_start_offset:
            self._segments.log_start_offset = start
            self._small_files.epochs.truncate_from_start(start)
        snapshots = [
            DataFile(self._context.files, snapshot_name(segment.base_offset)) for segment in going
        ]
        renames = [
            data.retire(DELETED_SUFFIX)
            for data in (*(data for segment in going for data in segment.files), *snapshots)
        ]
        self._context.directory.spawn(self._remove_oldest(renames))
        logger.info(
            "old segments were removed log=%s count=%d start_offset=%d",
            self._context.files.path,
            count,
            start,
        )

    async def _remove_oldest(self, renames: Sequence[tuple[str, str]]) -> None:
        """Remove what retention took, after the snapshot of the segment that is the first now.

        It is the only place that still says what the producers have written before it.
        """
        async with self._locks.checkpoints:
            pass  # a roll writes its snapshot under this lock, and asked for it before
        await self._removal.rename_and_remove(renames)
