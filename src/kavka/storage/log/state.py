"""State of an open log: its segments and offsets, leader epochs and producers.

    log_start_offset      high watermark   written_offset    log_end_offset
    |--- segments ------------|-----------------|- - queued - - |
                      |--- active segment ---->
              recovery_point: all below is on the medium

Invariant: log_start_offset <= written_offset <= log_end_offset. The leader gives out offsets from `log_end_offset` on;
bytes in the queue of a slow disk have theirs already and cannot be read yet. The high watermark belongs to `core`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint.leader_epochs import LEADER_EPOCHS, EpochStart
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.partition_directory import PartitionDirectory
from kavka.storage.log.loader import LoadedLog
from kavka.storage.log.producer_snapshot import snapshot_name
from kavka.storage.log_config import LogConfig
from kavka.storage.segment.segment import Segment


class LogState:
    """The state that flushing, appending, reading and cutting share; `Log` is all of them."""

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        files: PartitionDirectory,
        loaded: LoadedLog,
    ) -> None:
        """Take over what was loaded."""
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id: TopicId | None = loaded.topic_id
        self.config = config
        self.recovery = loaded.recovery
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = directory.clock.tick_ms()
        self._files = files
        self._segments = loaded.segments
        self._base_offsets = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._active.jitter_ms = self._next_jitter_ms()
        if loaded.recovery.checked_segments:
            directory.write_indexes_soon(self._active)
        self._written_offset = self._end_offset = loaded.end_offset
        self._truncations = 0
        self._has_new_files = loaded.has_new_files
        self._is_new = loaded.is_new
        self._is_settled = loaded.is_settled
        self._found_end_offset, self._found_active = loaded.end_offset, self._active
        self._snapshot_offset = loaded.snapshot_offset
        self._is_closed = False
        directory.open_logs += 1
        self._is_truncating = False
        self.cleaner_offset: int | None = loaded.cleaner_offset
        """Everything below was compacted against everything below; None before the first pass."""
        self.is_being_cleaned = False
        """True while the cleaner has a pass over the log: retention waits for its end."""
        self.replacements = 0
        """Number of times that cleaned segments replaced others."""
        self._waiting_flush: asyncio.Task[None] | None = None
        self._flush_lock = asyncio.Lock()
        # Held while snapshots or leader epochs are written, so that none of them outlives a truncation.
        self._checkpoint_lock = asyncio.Lock()
        self._names_lock = asyncio.Lock()

    @property
    def _is_as_found(self) -> bool:
        """Whether a stop has nothing to write, because a clean start would find this log as it is."""
        return (
            self._is_settled
            and self._end_offset == self._found_end_offset
            and self._active is self._found_active
            and self._truncations == 0
            and not self.epochs.is_changed_below(self._end_offset)
        )

    def _end(self) -> None:
        """Be closed from now on."""
        if not self._is_closed:
            self._is_closed = True
            self.directory.open_logs -= 1

    # Where things are

    @property
    def log_end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._end_offset

    @property
    def written_offset(self) -> int:
        """The end of what readers can see; below `log_end_offset` only while a slow disk has a queue."""
        return self._written_offset

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self._segments)

    @property
    def path(self) -> str:
        """The partition's directory."""
        return self._files.path

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last one is active. Not to be changed."""
        return self._segments

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that wrote here, or that has begun at the end; -1 when none is known."""
        return self.epochs.latest_epoch

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote `offset`, or -1."""
        return self.epochs.epoch_at(offset)

    def end_offset_for(self, epoch: int) -> EpochStart:
        """Return the largest epoch <= `epoch` and the offset where it ended; (-1, -1) when nothing is known.

        This is the leader's answer to OffsetsForLeaderEpoch (KIP-279), and what a follower compares it with (KIP-320).
        """
        return self.epochs.end_offset_for(epoch, self._end_offset)

    # Segments to come

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files, base_offset, self.directory.clock.now_ms(), self._next_jitter_ms()
        )

    def _next_jitter_ms(self) -> int:
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return int(self.directory.random.random() * bound) if bound > 0 else 0

    # The facts beside the segments

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that `leader_epoch` begins at `start_offset`.

        The file is written by flushes, before the recovery point moves: above it, recovery learns the epochs from the
        batches.
        """
        self.epochs.assign(leader_epoch, start_offset)

    async def _write_epochs(self) -> None:
        async with self._checkpoint_lock:
            if not self._is_closed:
                await self._write_changed_epochs()

    async def _write_changed_epochs(self) -> None:
        if self.epochs.is_changed:
            self.epochs.note_stored()
            await self.directory.replace_file(
                self._files.path_of(LEADER_EPOCHS), self.epochs.encode()
            )

    async def _write_snapshot(self, offset: int, snapshot: bytes) -> None:
        name = snapshot_name(offset)
        await self.directory.replace_file(self._files.path_of(name), snapshot)
        self._snapshot_offset = max(self._snapshot_offset, offset)
