"""The log of a replica that follows: what the follower's machine reads of it, and the steps done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from kavka.broker.partitions.replica import Replica
from kavka.core.follower import Append, RestartAt, Step, Truncate
from kavka.core.partition import Role
from kavka.storage.failures import OffsetBelowEnd
from kavka.wire.records.corrupt import CorruptBatch

Work = Callable[[], Awaitable[None]]
"""Remaining work, to be awaited. It starts when it is called, so cancelling before leaves nothing behind."""


class FollowerLog:
    """Implements `core.follower.FollowedLog` for a replica in one leader epoch."""

    __slots__ = ("leader_epoch", "replica")

    def __init__(self, replica: Replica) -> None:
        """Read and truncate this replica as long as its leader epoch is what it is now."""
        self.replica = replica
        self.leader_epoch = replica.partition.leader_epoch

    # What the machine reads

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        return self.replica.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record must have; what waits for a slow disk is counted."""
        return self.replica.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Return the high watermark."""
        return self.replica.partition.high_watermark

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record."""
        return self.replica.log.epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch that is not above `epoch`, and where it ends."""
        log = self.replica.log
        return log.epochs.end_offset_for(epoch, log.log_end_offset)

    # What is done

    @property
    def is_current(self) -> bool:
        """Return whether this replica still follows in this object's leader epoch, without a pending change of role."""
        return self._is_followed and not self.replica.lock.locked()

    @property
    def _is_followed(self) -> bool:
        partition = self.replica.partition
        return partition.leader_epoch == self.leader_epoch and partition.role is Role.FOLLOWER

    def append(self, step: Append, records: memoryview | None) -> Work | None:
        """Append what was fetched; None when that is done at once, else what is left.

        Raise CorruptBatch for bytes that are not sound batches in sequence, LogDirectoryFailed when the disk fails.
        """
        if not self.is_current:
            return None
        log = self.replica.log
        if not records:
            self.replica.followed(0, step.high_watermark, step.log_start_offset)
            return None
        if not log.directory.writes.is_idle:
            return partial(self.perform, step, records)
        try:
            appended = log.append_fetched(records, self.leader_epoch)
        except OffsetBelowEnd as error:
            if error.may_restart:
                return partial(self.perform, step, records)
            raise CorruptBatch(str(error), 0) from error
        if appended is None:
            return None
        if appended.written is not None:  # the settings ask for a flush
            return partial(self._when_written, appended.written, len(records), step)
        self.replica.followed(len(records), step.high_watermark, step.log_start_offset)
        return None

    async def _when_written(self, written: asyncio.Future[None], size: int, step: Append) -> None:
        """Advance the end offset when the disk has the records."""
        await written
        async with self.replica.lock:
            if self._is_followed:
                self.replica.followed(size, step.high_watermark, step.log_start_offset)

    async def perform(self, step: Step, records: memoryview | None = None) -> None:
        """Carry out a step that waits for the disk. Raise as `append`."""
        replica = self.replica
        async with replica.lock:
            if not self._is_followed:
                return
            match step:
                case Append():
                    await self._append_slowly(step, records or memoryview(b""))
                case Truncate():
                    await replica.log.truncate_to(step.offset)
                    replica.truncated()
                case RestartAt():
                    await replica.log.truncate_fully_and_start_at(step.offset)
                    replica.restarted()

    async def _append_slowly(self, step: Append, records: memoryview) -> None:
        """Append behind a queue of writes, or into an empty log that begins in the middle of a batch."""
        log, restarted = self.replica.log, self.replica.restarted
        appended = await log.append_or_restart(records, self.leader_epoch, restarted)
        if appended is None:
            return
        if appended.written is not None:
            await appended.written
            if not self._is_followed:
                return  # the replica is being deleted, which waits for us only before the log goes
        self.replica.followed(len(records), step.high_watermark, step.log_start_offset)
