"""Moving a partition to another log directory: its copy, and the swap that makes the copy the log (KIP-113).

    directory a     t-0 ----------------------------> t-0.<id>-delete ----> removed
    directory b     t-0.<id>-future   marked ----------------------------> t-0
                            ^            1                  2                3

The copy is appended to as a follower does. A swap is decided by step 1, the durable file `replaces-current` in the
copy: before it a start finds a log and a copy that may continue; after it, the copy is the log, wherever the stop was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterator, Sequence

from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.storage.directory.directory_names import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    future_name,
    future_partition_of,
    other_name,
    partition_of,
)
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log.log import Log

logger = logging.getLogger(__name__)

REPLACES_CURRENT = "replaces-current"


class FutureLogs:
    """The copies of a broker's logs. One move of all begins, swaps or ends at a time."""

    def __init__(
        self, directories: Sequence[LogDirectory], logs: dict[TopicPartition, Log]
    ) -> None:
        """Manage the future logs of `logs`, the current ones; a swap changes that table."""
        self._directories = directories
        self._logs = logs
        self._futures: dict[TopicPartition, Log] = {}
        self._lock = asyncio.Lock()

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Return the partition's future log, or None."""
        return self._futures.get(topic_partition)

    def __iter__(self) -> Iterator[Log]:
        """Iterate over the future logs as they are now."""
        return iter(list(self._futures.values()))

    def loaded(self, log: Log) -> None:
        """Take a copy that was found at the start."""
        self._futures[log.topic_partition] = log

    async def create(self, topic_partition: TopicPartition, path: str) -> Log:
        """Return the future log in the directory `path`, made if it is new; one in another directory goes.

        It begins where the current log begins; one that is there is aligned. Raise KafkaError when the directory is
        unknown or holds the current log, LogDirectoryFailed when it is offline.
        """
        async with self._lock:
            current, directory = self._logs[topic_partition], self._directory(path)
            if current.directory is directory:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{topic_partition} is in {path} already"
                )
            directory.check()
            found = self._futures.get(topic_partition)
            if found is not None and found.directory is directory:
                await _align(current, found)
                return found
            await self._abandon(topic_partition)
            try:
                self._futures[topic_partition] = log = await self._make(current, directory)
            except LogDirectoryFailed:
                raise
            except OSError as error:
                raise directory.fail(error) from error
            return log

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._directories:
            if directory.path == (path.rstrip("/") or "/"):
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of the log directories")

    async def _make(self, current: Log, directory: LogDirectory) -> Log:
        topic_partition = current.topic_partition
        try:
            name = future_name(topic_partition, directory.random.random_bytes(16))
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        # The partition may have been in this directory before.
        await directory.lower_offsets(topic_partition, 0)
        log = await Log.open(
            directory,
            topic_partition,
            current.config,
            topic_id=current.topic_id,
            is_clean=True,
            name=name,
        )
        if current.log_start_offset:
            await log.truncate_fully_and_start_at(current.log_start_offset)
        return log

    async def align(self, topic_partition: TopicPartition) -> Log:
        """Truncate the future log to its common part with the current one, and return it.

        To be called when the current log was truncated, or begins behind the future log's end. There are no appends to
        the future log meanwhile.
        """
        async with self._lock:
            future = self._futures[topic_partition]
            await _align(self._logs[topic_partition], future)
            return future

    async def replace_current(self, topic_partition: TopicPartition) -> Log:
        """Make the future log, which ends where the current one ends, the current one, and return it.

        There are no appends to either until this returns, and it is not cancelled. Settings and log starts that the old
        log gets meanwhile count. Readers of the old log are refused from then on. When a disk fails in between, the
        current log is as it was, or offline, or the copy is the log and offline; the next start finishes the swap.
        """
        async with self._lock:
            current, future = self._logs[topic_partition], self._futures[topic_partition]
            current.directory.check()
            await current.directory.writes.reached()
            await future.directory.writes.reached()
            assert future.log_end_offset == current.log_end_offset, (
                "the copy has not caught up",
                topic_partition,
            )
            assert _is_same_history(current, future), (
                "the copy has another history",
                topic_partition,
            )
            _take_over(current, future)
            await future.flush()
            marker = f"{future.path}/{REPLACES_CURRENT}"
            await future.directory.replace_file(marker, b"")
            await discard(current, current.config.file_delete_delay_ms)
            self._logs[topic_partition] = future
            del self._futures[topic_partition]
            await future.move_to(str(topic_partition))
            await _remove_marker(future.directory, topic_partition)
            _take_over(current, future)
            logger.info(
                "log moved partition=%s from=%s to=%s",
                topic_partition,
                current.directory.path,
                future.directory.path,
            )
            return future

    async def abandon(self, topic_partition: TopicPartition) -> bool:
        """Drop the future log; False when there is none."""
        async with self._lock:
            return await self._abandon(topic_partition)

    async def _abandon(self, topic_partition: TopicPartition) -> bool:
        log = self._futures.pop(topic_partition, None)
        if log is not None and log.directory.failure is None:
            await discard(log, 0)
        return log is not None

    # At the start

    async def finish_swaps(self) -> None:
        """Finish the swaps that a stop interrupted after they were decided. To be called before logs are loaded."""
        names = {}
        for directory in self._online():
            try:
                names[directory.path] = await directory.disk.run(
                    directory.disk.list, directory.path
                )
            except OSError as error:
                directory.fail(error)
        for directory in self._online():
            for name in names[directory.path]:
                topic_partition = future_partition_of(name)
                if topic_partition is not None and await _is_marked(directory, name):
                    await self._promote(topic_partition, directory, name)
        await self._resolve_duplicates(names)

    async def _promote(
        self, topic_partition: TopicPartition, directory: LogDirectory, name: str
    ) -> None:
        try:
            await self._discard_others(topic_partition, directory)
            await directory.disk.run(_rename, directory, name, str(topic_partition))
        except OSError as error:
            directory.fail(error)
            return
        if len(self._online()) == len(self._directories):
            await _remove_marker(directory, topic_partition)
        logger.info("log moved partition=%s to=%s by=start", topic_partition, directory.path)

    async def _resolve_duplicates(self, names: dict[str, list[str]]) -> None:
        """Keep the marked log of two; the other is in a directory that was offline when the swap ended."""
        found: dict[TopicPartition, list[LogDirectory]] = {}
        for directory in self._online():
            for name in names[directory.path]:
                topic_partition = partition_of(name)
                if topic_partition is not None:
                    found.setdefault(topic_partition, []).append(directory)
        for topic_partition, directories in found.items():
            if len(directories) > 1:
                marked = [d for d in directories if await _is_marked(d, str(topic_partition))]
                if len(marked) == 1:
                    await self._discard_others(topic_partition, marked[0])
                    await _remove_marker(marked[0], topic_partition)

    async def _discard_others(self, topic_partition: TopicPartition, winner: LogDirectory) -> None:
        for other in self._online():
            if other is winner:
                continue
            path = f"{other.path}/{topic_partition}"
            if await other.disk.run(other.disk.exists, path):
                name = other_name(topic_partition, other.random.random_bytes(16), DELETE_SUFFIX)
                await other.disk.run(_rename, other, str(topic_partition), name)

    async def rename_orphans(self, unreadable: Container[TopicPartition]) -> None:
        """Rename the copies of which the log is nowhere: its topic was deleted, or its directory is not used any more.

        While a directory is offline, the log may be in there, and the copy waits for it.
        """
        if len(self._online()) < len(self._directories):
            return
        for topic_partition, log in list(self._futures.items()):
            current = self._logs.get(topic_partition)
            if topic_partition in unreadable or (
                current is not None and current.topic_id == log.topic_id
            ):
                continue
            del self._futures[topic_partition]
            uuid = log.directory.random.random_bytes(16)
            try:
                await log.abandon(other_name(topic_partition, uuid, STRAY_SUFFIX))
            except LogDirectoryFailed:
                continue  # said when it failed
            logger.warning("orphaned future log renamed log=%s path=%s", topic_partition, log.path)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.failure is None]


def tree_removal(directory: LogDirectory, path: str) -> Callable[[], None]:
    """Return what removes a directory with all that is in it, if it is there."""

    def remove() -> None:
        if directory.disk.exists(path):
            directory.disk.remove_tree(path)

    return remove


async def discard(log: Log, delay_ms: int) -> None:
    """Close the log, rename its directory, and remove that after `delay_ms`. Raise LogDirectoryFailed."""
    directory = log.directory
    name = other_name(log.topic_partition, directory.random.random_bytes(16), DELETE_SUFFIX)
    await log.abandon(name)
    directory.remove_later(tree_removal(directory, log.path), delay_ms)


async def _align(current: Log, future: Log) -> None:
    """Truncate as a follower does, epoch by epoch (KIP-279); restart where the logs have no common offset."""
    while future.log_end_offset > future.log_start_offset and future.latest_epoch >= 0:
        latest = future.epochs.entries[-1]
        epoch, end_offset = current.end_offset_for(latest.epoch)
        if epoch == latest.epoch:
            await future.truncate_to(end_offset)
            break
        # Nothing of its last epoch is in the current log.
        known = end_offset if epoch >= 0 else latest.start_offset
        await future.truncate_to(min(known, latest.start_offset))
    if future.log_end_offset > current.log_end_offset:
        await future.truncate_to(current.log_end_offset)
    start = current.log_start_offset
    if future.log_end_offset < start or future.log_start_offset > start:
        await future.truncate_fully_and_start_at(start)


def _is_same_history(current: Log, future: Log) -> bool:
    """Return whether both logs have the same epochs at the start of the copy and at the end.

    The copy knows those of the batches that it was given: of what was compacted away only the log knows the epoch.
    """
    ours, others = current.epochs.entries, future.epochs.entries
    if not ours or not others:
        return True
    start = max(ours[0].start_offset, others[0].start_offset, current.log_start_offset)
    last = current.log_end_offset - 1
    return all(
        current.epoch_at(place) == future.epoch_at(place)
        for place in (*(entry.start_offset for entry in others), last)
        if start <= place <= last
    )


def _take_over(current: Log, future: Log) -> None:
    """Copy the state of the log that is not in its batches."""
    future.config = current.config
    future.delete_before(current.log_start_offset, future.log_end_offset)
    future.epochs.replace_with(current.epochs)


async def _is_marked(directory: LogDirectory, name: str) -> bool:
    path = f"{directory.path}/{name}/{REPLACES_CURRENT}"
    return await directory.disk.run(directory.disk.exists, path)


async def _remove_marker(directory: LogDirectory, topic_partition: TopicPartition) -> None:
    path = f"{directory.path}/{topic_partition}/{REPLACES_CURRENT}"
    try:
        await directory.disk.run(directory.disk.remove, path)
    except FileNotFoundError:
        return
    except OSError as error:
        directory.fail(error)


def _rename(directory: LogDirectory, old: str, new: str) -> None:
    directory.disk.rename(f"{directory.path}/{old}", f"{directory.path}/{new}")
    directory.disk.sync_directory(directory.path)
