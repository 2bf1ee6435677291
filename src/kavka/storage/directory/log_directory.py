"""A log directory, an entry of `log.dirs`: the unit of failure. Its logs share its write queue and its open files."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kavka.ids import TopicPartition
from kavka.io import Clock, Disk, Lock, Random
from kavka.metrics.timings import Timings
from kavka.storage.checkpoint import files as checkpoint
from kavka.storage.checkpoint.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from kavka.storage.checkpoint.meta_properties import META_PROPERTIES, MetaProperties
from kavka.storage.directory.log_creation import LogCreation
from kavka.storage.directory.write_queue import WriteQueue
from kavka.storage.disk.partition_directory import OpenFiles
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.segment.segment import Segment

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
_MAX_OPEN_FILES = 4096
_MIN_OPEN_FILES = 32
_SEGMENTS_AT_ONCE = 64
_REMOVALS_AT_ONCE = 64

Removal = Callable[[], bool | None]
"""Removes files, in the pool; returns False when it must be called again."""


class LogDirectory:
    """The directory `path`. `failure` is what took it offline; nothing brings it back but a restart."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        slow_write_ms: int = 50,
        on_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        """Refer to `path`. `on_failure` is called once, when the directory goes offline."""
        self.disk = disk
        self.clock = clock
        self.random = random
        self.path = path.rstrip("/") or "/"
        self.open_files = OpenFiles(_MAX_OPEN_FILES)
        self.creation = LogCreation(disk)
        self.writes = WriteQueue(clock, slow_write_ms, self.fail)
        self.flushes = Timings()
        """Of logs, each with all of its files."""
        self.failure: OSError | None = None
        self.open_logs = 0
        """Number of open logs in this directory, future ones included."""
        self.was_clean = False
        self._on_failure = on_failure
        self._lock: Lock | None = None
        self._removals: deque[tuple[int, Removal]] = deque()
        self._waiting_sync: asyncio.Task[None] | None = None
        self._sync_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        # Active segments with index entries that are in memory only.
        self._lagging: dict[Segment, None] = {}
        # Each checkpoint is written under one temporary name: one writer at a time, in the order of the calls.
        self._checkpoint_lock = asyncio.Lock()
        # What the checkpoints on disk say, and what they must not say any more.
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._written: set[str] = set()
        """The checkpoints that were written since the start: what one of them says needs no second write."""
        self._lowered_offsets: dict[TopicPartition, int] = {}
        self._kept_offsets: set[TopicPartition] = set()

    def share_open_files(self, directories: int) -> None:
        """Keep no more files open than this directory's share of what the process may: half is for connections."""
        share = self.disk.open_files_limit() // 2 // directories
        self.open_files.limit = max(_MIN_OPEN_FILES, min(_MAX_OPEN_FILES, share))

    # Life

    async def open(self) -> None:
        """Make the directory, take its lock and the clean-shutdown marker.

        Raise BlockingIOError when another process uses it, another OSError when it cannot be used.
        """
        self.disk.make_directories(self.path)
        self._lock = self.disk.lock(f"{self.path}/{LOCK_FILE}")
        self.was_clean = await self.disk.run(take_clean_shutdown, self.disk, self.path)

    async def close(self, *, is_clean: bool, broker_epoch: int = -1) -> None:
        """Wait for background work and release the lock; leave the clean-shutdown marker if `is_clean`."""
        await self.wait_for_tasks()
        if is_clean and self.failure is None:
            await self.disk.run(write_clean_shutdown, self.disk, self.path, broker_epoch)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def wait_for_tasks(self) -> None:
        """Return when queued writes and background work are done."""
        await self.writes.drained()
        await self.creation.wait_for_tasks()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    # Failing

    def check(self) -> None:
        """Raise LogDirectoryFailed when the directory is offline."""
        if self.failure is not None:
            raise LogDirectoryFailed(
                self.failure.errno, f"log directory {self.path} is offline: {self.failure}"
            )

    def fail(self, error: OSError) -> OSError:
        """Take the directory offline because of `error`; return what callers are to raise."""
        if self.failure is None:
            self.failure = error
            logger.error("log directory went offline directory=%s error=%s", self.path, error)
            if self._on_failure is not None:
                self._on_failure(self)
        return LogDirectoryFailed(error.errno, f"log directory {self.path} is offline: {error}")

    # Background work

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` beside everything else; an OSError in it takes the directory offline."""
        task = asyncio.get_running_loop().create_task(self._fail_on_error(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fail_on_error(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LogDirectoryFailed:
            pass  # said when it failed
        except OSError as error:
            self.fail(error)

    def remove_later(self, removal: Removal, delay_ms: int) -> None:
        """Call `removal` in `remove_due`, once `delay_ms` have passed (`file.delete.delay.ms`)."""
        self._removals.append((self.clock.tick_ms() + delay_ms, removal))

    async def remove_due(self) -> None:
        """Remove files after their delay. To be called every second or so."""
        now = self.clock.tick_ms()
        waiting, self._removals = self._removals, deque()
        due = []
        for due_ms, removal in waiting:
            if due_ms > now:
                self._removals.append((due_ms, removal))
            else:
                due.append(removal)
        for first in range(0, len(due), _REMOVALS_AT_ONCE):
            try:
                again = await self.disk.run(_call_all, due[first : first + _REMOVALS_AT_ONCE])
            except OSError as error:
                raise self.fail(error) from error
            self._removals.extend((now, removal) for removal in again)

    # Indexes of active segments

    def write_indexes_soon(self, segment: Segment) -> None:
        """Schedule the writing of the segment's index files by the next `write_lagging_indexes`."""
        self._lagging[segment] = None

    async def write_lagging_indexes(self) -> None:
        """Write the index entries that are in memory only, while the disk is fast. To be called every second or so.

        A slow disk gets them with the writes of its queue. Raise LogDirectoryFailed; a start rebuilds the indexes.
        """
        lagging, self._lagging = self._lagging, {}
        while lagging and self.writes.is_idle and self.failure is None:
            for _ in range(min(_SEGMENTS_AT_ONCE, len(lagging))):
                segment, _ = lagging.popitem()
                self._write_indexes(segment)
            await asyncio.sleep(0)
        self._lagging |= lagging

    def _write_indexes(self, segment: Segment) -> None:
        if segment.data.is_discarded:
            return
        if segment.data.is_directory_being_renamed:
            self._lagging[segment] = None
            return
        started = self.clock.tick_ms()
        try:
            segment.write_indexes()
        except OSError as error:
            raise self.fail(error) from error
        self.writes.note_duration(started)

    # Names

    async def sync_names(self) -> None:
        """Return when the names of all partitions' directories are durable. Raise OSError.

        All that ask while one sync is in progress share the next one.
        """
        if self._waiting_sync is None:
            self._waiting_sync = asyncio.get_running_loop().create_task(self._sync_one())
            self._tasks.add(self._waiting_sync)
            self._waiting_sync.add_done_callback(self._tasks.discard)
        await asyncio.shield(self._waiting_sync)

    async def _sync_one(self) -> None:
        async with self._sync_lock:
            # A name that is made from now on may come too late for this sync.
            self._waiting_sync = None
            await self.disk.run(self.disk.sync_directory, self.path)

    # Small files

    async def replace_file(self, path: str, content: bytes) -> None:
        """Make `content` the durable content of `path`; an OSError takes the directory offline."""
        self.check()
        try:
            await self.disk.run(checkpoint.replace_file, self.disk, path, content)
        except OSError as error:
            raise self.fail(error) from error

    async def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return a checkpoint of offsets; empty when it is missing, or malformed, which is said in the log.

        An empty checkpoint is always safe: it makes recovery read more, never less.
        """
        self._offsets[name] = offsets = await self._read_offsets(name)
        return dict(offsets)

    async def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        content = await self.disk.run(checkpoint.read_file, self.disk, f"{self.path}/{name}")
        if content is None:
            return {}
        try:
            return checkpoint.decode_offsets(content, name)
        except checkpoint.CorruptCheckpoint as error:
            logger.warning("ignored a checkpoint directory=%s reason=%s", self.path, error)
            return {}

    async def write_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Replace a checkpoint of offsets, unless it says them; of two calls the later one's offsets stay."""
        offsets = dict(offsets)
        async with self._checkpoint_lock:
            known = self._offsets.get(name, {})
            offsets |= {
                topic_partition: known[topic_partition]
                for topic_partition in self._kept_offsets
                if topic_partition in known
            }
            if offsets == known and name in self._written:
                return
            await self.replace_file(f"{self.path}/{name}", checkpoint.encode_offsets(offsets))
            self._offsets[name] = offsets
            self._written.add(name)

    def keep_offsets(self, topic_partition: TopicPartition) -> None:
        """Keep the entries of a log that could not be opened in all checkpoints."""
        self._kept_offsets.add(topic_partition)

    async def lower_offsets(self, topic_partition: TopicPartition, offset: int) -> None:
        """Return when no checkpoint on disk says more than `offset` of a log: its end is about to be cut.

        Else a crash would leave a recovery point above what was written again and never flushed, or a log start above
        the log's end. Calls that come together share their writes.
        """
        self._lowered_offsets[topic_partition] = min(
            offset, self._lowered_offsets.get(topic_partition, offset)
        )
        async with self._checkpoint_lock:
            bounds, self._lowered_offsets = self._lowered_offsets, {}
            for name in (
                checkpoint.RECOVERY_POINTS,
                checkpoint.LOG_START_OFFSETS,
                checkpoint.CLEANER_OFFSETS,
            ):
                await self._lower(name, bounds)

    async def _lower(self, name: str, bounds: dict[TopicPartition, int]) -> None:
        if name not in self._offsets:
            self._offsets[name] = await self._read_offsets(name)
        offsets = self._offsets[name]
        lowered = {
            topic_partition: bound
            for topic_partition, bound in bounds.items()
            if offsets.get(topic_partition, 0) > bound
        }
        if lowered:
            offsets |= lowered
            await self.replace_file(f"{self.path}/{name}", checkpoint.encode_offsets(offsets))

    async def read_meta(self) -> MetaProperties | None:
        """Return `meta.properties`, None when the directory is new. Raise ValueError when it is malformed."""
        content = await self.disk.run(
            checkpoint.read_file, self.disk, f"{self.path}/{META_PROPERTIES}"
        )
        try:
            return None if content is None else MetaProperties.decode(content)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error

    async def write_meta(self, meta: MetaProperties) -> None:
        """Replace `meta.properties`."""
        await self.replace_file(f"{self.path}/{META_PROPERTIES}", meta.encode())


def _call_all(removals: Sequence[Removal]) -> list[Removal]:
    """Remove one after the other; return what is to be called again. It blocks."""
    return [removal for removal in removals if removal() is False]
