"""Moves of replicas between the log directories of this broker (KIP-113, AlterReplicaLogDirs).

    copying     the future log is appended to from the log itself, as a follower's
    swapping    both end at the same offset: nothing is appended until the copy is the log

The log continues meanwhile: it is appended to, truncated (then the copy is aligned), and loses its beginning. A move
that was interrupted continues at the next start. During the swap, some milliseconds, producers get
NOT_LEADER_OR_FOLLOWER and come again. A move that is called off ends between two steps, and a swap is one step:
halfway through it neither the log nor the copy is whole, so an operation that ends a move waits for the swap, and
finds the log only then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.partition_events import PartitionChange, PartitionEvents
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.replication.throttle import Throttle
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.storage.failures import CorruptFile, OffsetOutOfRange
from kavka.storage.log.log import Appended, Log
from kavka.wire.records.corrupt import CorruptBatch

log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 20
_MAX_LAST_CHUNKS: Final = 4
_PAUSE_MS: Final = 100
_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


class _Move:
    """A move that is in progress."""

    def __init__(self, run: Callable[[_Move], Coroutine[Any, Any, None]]) -> None:
        self.cancelled = asyncio.Event()
        """Set when it is to end after its present step."""
        self.truncation_count = -1
        """Truncation count of the log at the last alignment of the copy; it is aligned again when the count
        changes.
        """
        self.task = asyncio.get_running_loop().create_task(run(self))


class AlterLogDirsManager:
    """The moves that are in progress, a task each."""

    def __init__(
        self, context: BrokerContext, replica_manager: ReplicaManager, events: PartitionEvents
    ) -> None:
        """Move nothing yet."""
        self._disk = context.environment.disk
        self._replica_manager = replica_manager
        self._events = events
        self._throttle = Throttle(
            context.clock, partial(context.effective_configs.broker_integer, _RATE)
        )
        self._moves: dict[TopicPartition, _Move] = {}
        # Held while it is decided where a replica goes: of two requests the later one has the last word.
        self._lock = asyncio.Lock()

    async def move(self, replica: Replica, path: str) -> ErrorCode:
        """Begin to move a replica into the directory `path`; a move to another one ends, one to there continues."""
        topic_partition = replica.topic_partition
        async with self._lock:
            await self._cancel(topic_partition)
            async with replica.lock:
                found = self._replica_manager.find(topic_partition)
                if isinstance(found, ErrorCode):
                    return found  # a disk failed in the swap, or the replica was deleted
                if found is not replica:
                    return ErrorCode.NOT_LEADER_OR_FOLLOWER
                code = await self._place(replica, path)
            self.resume(replica)
            return code

    async def _place(self, replica: Replica, path: str) -> ErrorCode:
        """Make the copy where it is to be, or drop it when the log is there already."""
        store, topic_partition = self._replica_manager.store, replica.topic_partition
        try:
            if replica.log.directory.path == path:
                await store.abandon_future(topic_partition)
            else:
                await store.create_future(topic_partition, path)
        except KafkaError as error:
            return error.code
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def resume(self, replica: Replica) -> None:
        """Continue with the move of a replica, if it has a future log."""
        topic_partition = replica.topic_partition
        if (
            topic_partition not in self._moves
            and self._replica_manager.store.future(topic_partition) is not None
        ):
            self._moves[topic_partition] = _Move(partial(self._run, replica))

    async def forget(self, topic_partition: TopicPartition) -> None:
        """Stop a move, because the replica is removed from this broker."""
        await self._cancel(topic_partition)

    async def stop(self) -> None:
        """Stop all moves; the next start continues with them."""
        self._throttle.close()
        for move in self._moves.values():
            move.cancelled.set()
        for topic_partition in list(self._moves):
            await self._cancel(topic_partition)

    async def _cancel(self, topic_partition: TopicPartition) -> None:
        """Call a move off, and return after its present step; the copy stays."""
        move = self._moves.get(topic_partition)
        if move is not None:
            move.cancelled.set()
            await asyncio.wait([move.task])

    # -- one move

    async def _run(self, replica: Replica, move: _Move) -> None:
        topic_partition, store = replica.topic_partition, self._replica_manager.store
        try:
            async with replica.lock:
                future = store.future(topic_partition)
                if future is not None:
                    await self._align_future(replica, move)
            while future is not None and not move.cancelled.is_set():
                if await self._step(replica, future, move):
                    break
                await asyncio.sleep(0)  # what is in memory is copied without any other wait
        except (OSError, CorruptFile, CorruptBatch, KafkaError) as error:
            log.error("move of a replica failed partition=%s reason=%s", topic_partition, error)
        except Exception:
            # A bug: an operator who waits for the move must find its end in the log.
            log.exception("move of a replica failed partition=%s", topic_partition)
        finally:
            del self._moves[topic_partition]

    async def _align_future(self, replica: Replica, move: _Move) -> None:
        """Truncate the copy to what it has in common with the log. `replica.lock` is held."""
        await self._replica_manager.store.align_future(replica.topic_partition)
        move.truncation_count = replica.truncation_count

    async def _step(self, replica: Replica, future: Log, move: _Move) -> bool:
        """Copy one piece, or swap; true when the move is done."""
        if self._throttle.is_exceeded:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(move.cancelled.wait(), _PAUSE_MS / 1000)
            return False
        try:
            data = await self._read(replica.log, future.log_end_offset)
        except OffsetOutOfRange:
            data = None
        async with replica.lock:
            if data is None or move.truncation_count != replica.truncation_count:
                await self._align_future(replica, move)
                return False
            # The log start, which may be inside of the first batch, is set when the copy becomes the log.
            appended = await future.append_or_restart(data) if data else None
        if data:
            self._throttle.record(len(data))
            await _written(appended)  # on a slow disk that takes long, and the log must continue
            return False
        await future.flush()  # most of what the swap must flush, while the log still takes records
        return not move.cancelled.is_set() and await self._swap(replica, future, move)

    async def _read(self, current: Log, offset: int) -> bytes:
        """Read whole batches of the log from `offset` on; nothing at its end."""
        read = current.read(offset, _CHUNK_BYTES, current.written_offset)
        if not read.is_cached:
            read = await read.load(self._disk)
        if read.range is None:
            return b""
        try:
            return read.range.file.read_at(read.range.length, read.range.position)
        finally:
            read.range.release()

    async def _copy_rest(self, current: Log, future: Log) -> bool:
        """Copy the rest, if it is small, while appends are blocked.

        What came may be deleted already. Then the next step aligns the copy.
        """
        for _ in range(_MAX_LAST_CHUNKS):
            if future.log_end_offset == current.log_end_offset:
                return True
            try:
                data = await self._read(current, future.log_end_offset)
            except OffsetOutOfRange:
                return False
            await _written(await future.append_or_restart(data))
        return future.log_end_offset == current.log_end_offset

    async def _swap(self, replica: Replica, future: Log, move: _Move) -> bool:
        topic_partition, store = replica.topic_partition, self._replica_manager.store
        async with replica.lock:
            if move.truncation_count != replica.truncation_count:
                return False
            replica.is_frozen = True
            try:
                current = replica.log
                await current.directory.writes.reached()
                replica.note_written()
                if not await self._copy_rest(current, future):
                    return False
                replica.is_swapping = True
                try:
                    await store.swap_future(topic_partition)
                finally:
                    # Also when a disk failed: whichever of both is the log now.
                    replica.log = store.get(topic_partition) or current
                    replica.is_swapping = False
                    self._events.publish(PartitionChange.LOG_REPLACED, replica)
            finally:
                replica.is_frozen = False
            replica.notify_observers()
        replica.note_log_start()
        return True


async def _written(appended: Appended | None) -> None:
    """Wait until what was appended to the copy is written."""
    if appended is not None and appended.written is not None:
        await appended.written
