"""One partition's log, from opening to closing. What it does between is in the classes it is made of:
`log_appending`, `log_flushing`, `log_reading`, `log_cutting`, `log_compacting`, `log_following`, over `log_state`.

All methods run on the loop; those that need the medium are coroutines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint.partition_metadata import (
    PARTITION_METADATA,
    encode_partition_metadata,
)
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.log.follower_append import FollowingLog
from kavka.storage.log.loader import LoadRequest, load_log, load_logs, make_log
from kavka.storage.log.reader import ReadingLog
from kavka.storage.log.writer import Appended
from kavka.storage.log_config import LogConfig

__all__ = ["Appended", "Log"]


class FoundLog(NamedTuple):
    """A log that a start has found, with what the checkpoints of its directory say."""

    topic_partition: TopicPartition
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    cleaner_offset: int | None


class Log(FollowingLog, ReadingLog):
    """An open log. Made by `Log.open`."""

    @classmethod
    async def open(
        cls,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        topic_id: TopicId | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
        is_there: bool = False,
        name: str | None = None,
        cleaner_offset: int | None = None,
    ) -> Log:
        """Open or create the log, after recovering it when it was not closed cleanly (`log.recovery` tells).

        The offsets are those of the directory's checkpoints; `is_there` spares looking whether the log is new.
        Raise OSError when the disk fails, CorruptFile when the directory holds what may not be cut (messages of the
        legacy formats).
        """
        path = f"{directory.path}/{name or topic_partition}"
        files = PartitionDirectory(directory.disk, path, directory.open_files)
        request = LoadRequest(
            config,
            directory.clock.now_ms(),
            recovery_point,
            log_start_offset,
            is_clean,
            topic_id,
            cleaner_offset,
        )
        loaded = None if is_there else await make_log(files, request, directory.creation)
        if loaded is None:
            loaded = await load_log(files, request)
        # What loading changed in the leader epochs is written with the next change or flush: an empty log forgets its
        # epoch here and gets it again from its leader, which is no reason to write a file of every partition twice.
        return cls(directory, topic_partition, config, files, loaded)

    @classmethod
    async def open_found(
        cls, directory: LogDirectory, found: Sequence[FoundLog]
    ) -> list[Log | CorruptFile]:
        """Open logs that are there, in one call of the pool; of one that may not be cut, return why.

        Raise OSError when the disk fails.
        """
        wanted = []
        for each in found:
            path = f"{directory.path}/{each.topic_partition}"
            files = PartitionDirectory(directory.disk, path, directory.open_files)
            request = LoadRequest(
                each.config,
                directory.clock.now_ms(),
                each.recovery_point,
                each.log_start_offset,
                directory.was_clean,
                None,
                each.cleaner_offset,
            )
            wanted.append((files, request))
        outcomes = await directory.disk.run(load_logs, wanted)
        return [
            outcome
            if isinstance(outcome, CorruptFile)
            else cls(directory, each.topic_partition, each.config, files, outcome)
            for each, (files, _), outcome in zip(found, wanted, outcomes, strict=True)
        ]

    async def learn_topic_id(self, topic_id: TopicId) -> None:
        """Store the topic's id where there is none yet. Raise LogDirectoryFailed."""
        if self.topic_id is None:
            path = self._files.path_of(PARTITION_METADATA)
            await self.directory.replace_file(path, encode_partition_metadata(topic_id))
            self.topic_id = topic_id

    async def close(self) -> None:
        """Flush, leave everything as a clean start wants it, and release the files."""
        if self._is_closed:
            return
        if self.directory.failure is None and not self._is_as_found:
            await self._flush_and_finish()
        self._end()
        for segment in self._segments:
            segment.close()

    async def abandon(self, name: str) -> None:
        """Close without finishing anything and rename the directory to `name`: the partition goes, or has moved.

        Readers that hold a range of a file go on; all others are refused.
        """
        self._end()
        await self.directory.writes.reached()
        async with self._flush_lock, self._checkpoint_lock:
            for segment in self._segments:
                segment.close()
            await self._rename(name)

    async def move_to(self, name: str) -> None:
        """Rename the directory to `name`, durably. The caller must not read or append meanwhile.

        Index entries that are in memory only stay there until it is done.
        """
        await self.directory.writes.reached()
        async with self._flush_lock, self._checkpoint_lock:
            self._files.is_being_renamed = True
            try:
                await self._rename(name)
            finally:
                self._files.is_being_renamed = False

    async def _rename(self, name: str) -> None:
        directory, path = self.directory, f"{self.directory.path}/{name}"
        directory.check()
        try:
            await directory.disk.run(directory.disk.rename, self._files.path, path)
            self._files.path = path
            await directory.sync_names()
        except OSError as error:
            raise directory.fail(error) from error
