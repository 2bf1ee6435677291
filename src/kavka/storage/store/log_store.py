"""All logs of a broker, over its `log.dirs`: loading, placing, deleting, checkpoints, and the work that comes round.

The broker schedules the work: `remove_due` and `write_lagging_indexes` every second or so, `write_high_watermarks`
every 5 s, `write_checkpoints` every 60 s, `flush_due` every `log.flush.scheduler.interval.ms`. Retention is up to the
owner of each log, which knows the high watermark.
A directory that failed takes its logs with it; they stay in the table and refuse everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kavka.ids import TopicId, TopicPartition
from kavka.io import Disk
from kavka.storage.checkpoint.files import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from kavka.storage.directory.directory_names import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    future_partition_of,
    partition_of,
)
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.directory.sync_group import SyncGroup
from kavka.storage.failures import CorruptFile, LogDirectoryFailed
from kavka.storage.log.log import FoundLog, Log
from kavka.storage.log_config import LogConfig
from kavka.storage.segment.recovery import Recovery
from kavka.storage.store.future_logs import FutureLogs, discard, tree_removal
from kavka.storage.store.stray import IsStray, rename_strays
from kavka.values import frozen

logger = logging.getLogger(__name__)

_MIN_CLOSES = 4
_FILES_OF_A_LOG = 8
"""Files that a log which closes has open, as a rule: the log, its indexes, and small files."""
_LOADS_IN_ONE_CALL = 32
_LOGS_PER_TURN = 512


@frozen
class DirectoryReport:
    """A log directory in DescribeLogDirs; without sizes when it is offline."""

    path: str
    failure: OSError | None
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]
    future_sizes: dict[TopicPartition, int]
    """Of the copies that are to replace a log in another directory."""


class LogStore:
    """The logs of all directories. `config_of` gives a topic's settings when its logs are loaded."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        config_of: Callable[[str], LogConfig],
        *,
        loads_at_once: int = 4,
    ) -> None:
        """Manage the logs of `directories`; `loads_at_once` bounds how many of each are opened concurrently."""
        assert directories
        self.directories = list(directories)
        for directory in self.directories:
            directory.share_open_files(len(self.directories))
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As checkpointed; what the broker starts its partitions with."""
        self.recoveries: dict[TopicPartition, Recovery] = {}
        """The logs for which opening was more than reading."""
        self.unreadable: dict[TopicPartition, CorruptFile] = {}
        """The logs that could not be opened and may not be cut; they are left as they are."""
        self._is_loaded = False
        self._config_of = config_of
        self._loads_at_once = loads_at_once
        self._logs: dict[TopicPartition, Log] = {}
        self._futures = FutureLogs(self.directories, self._logs)
        # The directory of each partition that was found at the start, before its log is open.
        self._directories_found: dict[TopicPartition, str] = {}
        # Where the logs that are being made will be.
        self._preferred_directories: dict[
            TopicPartition, tuple[LogDirectory, asyncio.Task[Log]]
        ] = {}
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """Preferred directories for partitions that this broker does not have yet."""

    # The table

    def __len__(self) -> int:
        """Return how many logs there are."""
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        """Iterate over the logs as they are now."""
        return iter(list(self._logs.values()))

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Return the log, or None."""
        return self._logs.get(topic_partition)

    def of_topic(self, topic: str) -> list[Log]:
        """Return the logs of a topic, by partition."""
        return [
            log
            for topic_partition, log in sorted(self._logs.items())
            if topic_partition.topic == topic
        ]

    # Start and stop

    async def open(self) -> None:
        """Lock all directories and load their logs. Raise as `lock` and `load`."""
        await self.lock()
        await self.load()

    async def lock(self) -> None:
        """Take all directories; one that cannot be used goes offline and the others serve.

        Raise BlockingIOError when another process uses one, OSError when none can be used.
        """
        for directory in self.directories:
            try:
                await directory.open()
            except BlockingIOError:
                raise
            except OSError as error:
                directory.fail(error)
        self._check_online()

    async def load(self, is_stray: IsStray | None = None) -> None:
        """Load the logs of all directories, with the settings that `config_of` gives now; stray ones are set aside.

        Swaps that a stop interrupted are finished first. Raise OSError when no directory can be used, ValueError when
        two hold the same partition.
        """
        await self._futures.finish_swaps()
        await asyncio.gather(*(self._load_directory(d, is_stray) for d in self._online()))
        self._check_online()
        await self._futures.rename_orphans(self.unreadable)
        self._is_loaded = True

    def _check_online(self) -> None:
        if not self._online():
            failure = self.directories[0].failure
            assert failure is not None
            raise LogDirectoryFailed(failure.errno, f"no log directory can be used: {failure}")

    async def _load_directory(self, directory: LogDirectory, is_stray: IsStray | None) -> None:
        try:
            await self._load_logs(directory, is_stray)
        except OSError as error:
            directory.fail(error)

    async def _load_logs(self, directory: LogDirectory, is_stray: IsStray | None) -> None:
        partitions, futures = await self._find_logs(directory)
        if is_stray is not None:
            partitions = await rename_strays(directory, partitions, is_stray)
        recovery_points = await directory.read_offsets(RECOVERY_POINTS)
        start_offsets = await directory.read_offsets(LOG_START_OFFSETS)
        high_watermarks = await directory.read_offsets(HIGH_WATERMARKS)
        cleaner_offsets = await directory.read_offsets(CLEANER_OFFSETS)
        slots = asyncio.Semaphore(self._loads_at_once)

        def found(topic_partition: TopicPartition) -> FoundLog:
            return FoundLog(
                topic_partition,
                self._config_of(topic_partition.topic),
                recovery_points.get(topic_partition, 0),
                start_offsets.get(topic_partition, 0),
                cleaner_offsets.get(topic_partition),
            )

        async def load(some: list[TopicPartition]) -> None:
            async with slots:
                await self._load_found(directory, list(map(found, some)))
            # A directory may know of a partition that has moved on to another one.
            for topic_partition in some:
                if topic_partition in high_watermarks:
                    self.high_watermarks[topic_partition] = high_watermarks[topic_partition]

        async def load_future(name: str, topic_partition: TopicPartition) -> None:
            known = (recovery_points.get(topic_partition, 0), start_offsets.get(topic_partition, 0))
            async with slots:
                await self._load_future(directory, topic_partition, name, *known)

        batches = range(0, len(partitions), _LOADS_IN_ONE_CALL)
        await _gather_all([load(partitions[at : at + _LOADS_IN_ONE_CALL]) for at in batches])
        await _gather_all([load_future(name, topic_partition) for name, topic_partition in futures])

    async def _find_logs(
        self, directory: LogDirectory
    ) -> tuple[list[TopicPartition], list[tuple[str, TopicPartition]]]:
        """Return the logs in a directory, and its future logs by name; deleted ones are queued for removal."""
        partitions, futures = [], []
        for name in await directory.disk.run(_subdirectories, directory.disk, directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_SUFFIX):
                directory.remove_later(tree_removal(directory, path), 0)
            elif name.endswith(STRAY_SUFFIX):
                continue
            elif (topic_partition := partition_of(name)) is not None:
                partitions.append(topic_partition)
            elif (topic_partition := future_partition_of(name)) is not None:
                futures.append((name, topic_partition))
            else:
                logger.warning("ignored a directory that is no partition path=%s", path)
        return partitions, futures

    async def _load_found(self, directory: LogDirectory, found: list[FoundLog]) -> None:
        for each in found:
            other = self._directories_found.setdefault(each.topic_partition, directory.path)
            if other != directory.path:
                raise ValueError(f"{each.topic_partition} is in {other} and in {directory.path}")
        opened = await Log.open_found(directory, found)
        for each, log in zip(found, opened, strict=True):
            topic_partition = each.topic_partition
            if isinstance(log, CorruptFile):
                logger.error("log cannot be opened log=%s reason=%s", topic_partition, log)
                self.unreadable[topic_partition] = log
                directory.keep_offsets(topic_partition)
            else:
                self._logs[topic_partition] = log
                self._note_recovery(topic_partition, log)

    async def _load_future(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        name: str,
        recovery_point: int,
        log_start_offset: int,
    ) -> None:
        """Open a copy that continues; one that cannot be opened goes, because the log is still where it was."""
        try:
            log = await Log.open(
                directory,
                topic_partition,
                self._config_of(topic_partition.topic),
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                is_clean=directory.was_clean,
                is_there=True,
                name=name,
            )
        except CorruptFile as error:
            logger.warning("future log was dropped log=%s reason=%s", name, error)
            directory.remove_later(tree_removal(directory, f"{directory.path}/{name}"), 0)
            return
        self._futures.loaded(log)

    def _note_recovery(self, topic_partition: TopicPartition, log: Log) -> None:
        if log.recovery.checked_segments or log.recovery.rebuilt_segments:
            self.recoveries[topic_partition] = log.recovery

    async def close(
        self,
        high_watermarks: Mapping[TopicPartition, int],
        *,
        broker_epoch: int = -1,
        is_clean: bool = True,
    ) -> None:
        """Stop in order: flush and close all logs, write the checkpoints, leave the clean-shutdown markers.

        Without `is_clean` there are no markers: the next start is one after an unclean stop. A high watermark that is
        not given stays what it was when the logs were loaded.
        Before all logs are loaded only the locks are given up: what is on disk stays as it was found.
        """
        if not self._is_loaded:
            await self._abandon()
            return
        for directory in self.directories:
            try:
                await directory.wait_for_tasks()
                await self._close_logs(directory)
                if directory.failure is None:
                    await self._write_checkpoints(directory)
                    await self._write_high_watermarks(directory, high_watermarks)
            except LogDirectoryFailed as error:
                logger.warning("log directory could not be closed cleanly reason=%s", error)
            await directory.close(is_clean=is_clean, broker_epoch=broker_epoch)

    async def _abandon(self) -> None:
        for directory in self.directories:
            await directory.close(is_clean=directory.was_clean)

    async def _close_logs(self, directory: LogDirectory) -> None:
        # All in a group wait for one commit of the file system's journal; each has some files open meanwhile.
        slots = asyncio.Semaphore(max(_MIN_CLOSES, directory.open_files.limit // _FILES_OF_A_LOG))
        group = SyncGroup(directory.disk)

        async def close(log: Log) -> None:
            async with slots:
                await log.close(group)

        await _gather_all([close(log) for log in self._logs_in(directory)])

    # Partitions come and go

    async def create(
        self, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig
    ) -> Log:
        """Return the partition's log, made in the online directory with the fewest logs if it is new.

        Raise LogDirectoryFailed when no directory is online, CorruptFile when the partition is there and cannot be
        opened.
        """
        while topic_partition in self._preferred_directories and topic_partition not in self._logs:
            await asyncio.wait([self._preferred_directories[topic_partition][1]])
        log = self._logs.get(topic_partition)
        if log is not None:
            if topic_id is not None:
                await log.learn_topic_id(topic_id)
            return log
        if topic_partition in self.unreadable:
            raise self.unreadable[topic_partition]
        directory = self.preferred.pop(topic_partition, None)
        if directory is None or directory.failure is not None:
            directory = self._least_loaded_directory()
        # A partition of this name may have been here before, and the checkpoints still know it.
        await directory.lower_offsets(topic_partition, 0)
        opening = asyncio.get_running_loop().create_task(
            Log.open(directory, topic_partition, config, topic_id=topic_id, is_clean=True)
        )
        self._preferred_directories[topic_partition] = (directory, opening)
        try:
            self._logs[topic_partition] = log = await opening
        except LogDirectoryFailed:
            raise
        except OSError as error:
            raise directory.fail(error) from error
        finally:
            del self._preferred_directories[topic_partition]
        return log

    def _least_loaded_directory(self) -> LogDirectory:
        """Return the online directory with the fewest logs, those that are being made included."""
        online = self._online()
        if not online:
            self.directories[0].check()
        if len(online) == 1:
            return online[0]
        counts = {directory.path: directory.open_logs for directory in online}
        for directory, _ in self._preferred_directories.values():
            if directory.path in counts:
                counts[directory.path] += 1
        return min(online, key=lambda directory: counts[directory.path])

    async def delete(self, topic_partition: TopicPartition) -> bool:
        """Rename the partition's directory at once and remove it after `file.delete.delay.ms`; False when unknown.

        A future log goes first: without the log it would be taken for one at the next start.
        """
        await self._futures.abandon(topic_partition)
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return False
        directory = log.directory
        self.high_watermarks.pop(topic_partition, None)
        if directory.failure is None:
            await discard(log, log.config.file_delete_delay_ms)
        return True

    # Moving to another directory

    def future(self, topic_partition: TopicPartition) -> Log | None:
        """Return the copy that is to replace the partition's log, or None."""
        return self._futures.get(topic_partition)

    async def create_future(self, topic_partition: TopicPartition, path: str) -> Log:
        """Begin to move a partition to the log directory `path`; see `FutureLogs.create`."""
        return await self._futures.create(topic_partition, path)

    async def align_future(self, topic_partition: TopicPartition) -> Log:
        """Cut the copy to what it has in common with the log; see `FutureLogs.align`."""
        return await self._futures.align(topic_partition)

    async def swap_future(self, topic_partition: TopicPartition) -> Log:
        """End the move: the copy, which has caught up, becomes the log; see `FutureLogs.swap`."""
        return await self._futures.replace_current(topic_partition)

    async def abandon_future(self, topic_partition: TopicPartition) -> bool:
        """Cancel the move; return False when there was none."""
        return await self._futures.abandon(topic_partition)

    # What comes round

    async def remove_due(self) -> None:
        """Remove deleted files after their delay."""
        for directory in self._online():
            try:
                await directory.remove_due()
            except LogDirectoryFailed:
                continue  # said when it failed

    async def write_lagging_indexes(self) -> None:
        """Write the index entries of active segments that are in memory only."""
        for directory in self._online():
            try:
                await directory.write_lagging_indexes()
            except LogDirectoryFailed:
                continue  # said when it failed

    async def flush_due(self) -> None:
        """Flush the logs that were not flushed for their `flush.ms`."""
        for log in self._all_logs():
            waited = log.directory.clock.tick_ms() - log.last_flush_ms
            if log.written_offset > log.recovery_point and waited >= log.config.flush_ms:
                try:
                    await log.flush()
                except LogDirectoryFailed:
                    continue  # said when it failed

    async def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets of all directories."""
        for directory in self._online():
            try:
                await self._write_checkpoints(directory)
            except LogDirectoryFailed:
                continue  # said when it failed

    async def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks, each into its log's directory; one that is not given stays what it was."""
        for directory in self._online():
            try:
                await self._write_high_watermarks(directory, offsets)
            except LogDirectoryFailed:
                continue  # said when it failed

    async def write_cleaner_offsets(self, directory: LogDirectory) -> None:
        """Write how far the logs of a directory are cleaned. Raise LogDirectoryFailed."""
        await directory.write_offsets(
            CLEANER_OFFSETS,
            {
                log.topic_partition: log.cleaner_offset
                for log in self._logs.values()
                if log.directory is directory and log.cleaner_offset is not None
            },
        )

    async def _write_checkpoints(self, directory: LogDirectory) -> None:
        logs = self._logs_in(directory)
        recovery_points = {log.topic_partition: log.recovery_point for log in logs}
        start_offsets = {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        await directory.write_offsets(RECOVERY_POINTS, recovery_points)
        await directory.write_offsets(LOG_START_OFFSETS, start_offsets)

    async def _write_high_watermarks(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]
    ) -> None:
        known = {**self.high_watermarks, **offsets}
        here: dict[TopicPartition, int] = {}
        for number, log in enumerate(self._logs_in(directory)):
            topic_partition = log.topic_partition
            if topic_partition in known:
                here[topic_partition] = min(known[topic_partition], log.log_end_offset)
            if number % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
        await directory.write_offsets(HIGH_WATERMARKS, here)

    # Reporting

    async def describe(self) -> list[DirectoryReport]:
        """Return all directories with the sizes of their logs."""
        return [await self._describe(directory) for directory in self.directories]

    async def _describe(self, directory: LogDirectory) -> DirectoryReport:
        if directory.failure is None:
            try:
                total, usable = await directory.disk.run(directory.disk.usage, directory.path)
            except OSError as error:
                directory.fail(error)
            else:
                sizes = _sizes(self._logs.values(), directory)
                futures = _sizes(self._futures, directory)
                return DirectoryReport(directory.path, None, total, usable, sizes, futures)
        return DirectoryReport(directory.path, directory.failure, -1, -1, {}, {})

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.failure is None]

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._all_logs() if log.directory is directory]

    def _all_logs(self) -> list[Log]:
        return [*self._logs.values(), *self._futures]


def _subdirectories(disk: Disk, path: str) -> list[str]:
    return [name for name in disk.list(path) if disk.is_directory(f"{path}/{name}")]


def _sizes(logs: Iterable[Log], directory: LogDirectory) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.size for log in logs if log.directory is directory}


async def _gather_all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Wait for all, also when one fails; then raise the first failure. Nothing continues behind the caller's back."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
