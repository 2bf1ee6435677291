"""Recovery of one segment: check every batch, cut at the first bad one, rebuild the indexes.

The CRC does not cover a batch's base offset. Offsets never go back in a sound log; when one does, the culprit is the
batch before, if that one had leapt forward, else the batch itself. So batches are committed one behind. The leader
epoch is not covered either, but going back proves nothing: it starts over when a cluster's registry was lost.
"""

from __future__ import annotations

from kavka.core.producer_state import CompletedTransaction, EndMarker, ProducerState
from kavka.io import Buffer, Disk
from kavka.storage.checkpoint.leader_epochs import LeaderEpochs
from kavka.storage.log_config import LogConfig
from kavka.storage.segment.batch_walk import BatchWalk, WalkedBatch
from kavka.storage.segment.segment import Segment
from kavka.storage.segment.transaction_index import AbortedTransaction
from kavka.values import field, mutable
from kavka.wire.records.control import ControlType, decode_end_marker
from kavka.wire.records.control import EndMarker as ControlMarker
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader

_MAX_RELATIVE_OFFSET = 2**31 - 1


@mutable
class Recovery:
    """The work that opening a log had to do. Nothing was lost when `cut_bytes` is 0."""

    checked_segments: list[int] = field(factory=list)
    """Base offsets of the segments with batches that were checked after an unclean stop."""
    rebuilt_segments: list[int] = field(factory=list)
    """Base offsets of flushed segments with missing or damaged indexes, which were rebuilt."""
    dropped_segments: list[int] = field(factory=list)
    """Base offsets of segments that were removed because they lay behind damage."""
    cut_bytes: int = 0
    """Bytes of log files that were dropped, those of whole segments included."""
    end_offset: int = 0
    """The log end offset after recovery."""
    damage: str | None = None
    """The first damage and its position."""


class SegmentRecovery:
    """The recovery of one segment."""

    def __init__(
        self,
        disk: Disk,
        segment: Segment,
        config: LogConfig,
        *,
        bound: int,
        checks_crc: bool,
        may_skip_offsets: bool,
    ) -> None:
        """`bound` is where the next segment begins; CRCs are not checked in parts that were flushed.

        `may_leap`: offsets may be missing, because the cleaner removed them.
        """
        self._disk = disk
        self._segment = segment
        self._config = config
        self._bound = min(bound, segment.base_offset + _MAX_RELATIVE_OFFSET + 1)
        self._checks_crc = checks_crc
        self._may_skip_offsets = may_skip_offsets
        self._last: WalkedBatch | None = None
        self._last_skipped = False
        self._expected_offset = segment.base_offset

    async def run(
        self, epochs: LeaderEpochs, producers: ProducerState | None
    ) -> tuple[int, str | None]:
        """Rebuild the segment and return how many bytes were cut, and why."""
        segment = self._segment
        size = segment.data.file().size()
        segment.clear_indexes()
        walk = BatchWalk(self._disk, segment.data, 0, size)
        damage: str | None = None
        while damage is None and (batches := await walk.next_block()):
            for batch in batches:
                sound = await walk.is_sound(batch) if self._checks_crc else batch
                damage = "a batch fails its checksum" if sound is None else self._check(sound)
                if damage is not None or sound is None:
                    break
                self._commit_last(epochs, producers)
                self._accept(sound)
        damage = damage or walk.damage
        if self._last is not None and self._is_doubtful(damage):
            damage = damage or f"offset {self._last.header.base_offset} leaps from its predecessor"
        else:
            self._commit_last(epochs, producers)
        self._last = None
        if segment.size < size:
            segment.truncate_file(segment.size)
            # Later flushes begin at the recovery point, which may be where this file ends now.
            await self._disk.run(segment.data.file().sync)
            return (
                size - segment.size,
                f"{damage or 'damage'} at position {segment.size} of {segment.data.path}",
            )
        return 0, None

    def _check(self, batch: WalkedBatch) -> str | None:
        """Return what is wrong with `batch`, or None."""
        header = batch.header
        if header.last_offset_delta < 0 or header.last_offset >= self._bound:
            return f"offsets {header.base_offset} to {header.last_offset} are beyond the segment"
        if header.base_offset < self._expected_offset:
            return f"offset {header.base_offset} after {self._expected_offset - 1}"
        if header.is_control:
            try:
                decode_end_marker(batch.block, header)
            except CorruptBatch as corrupt:
                return corrupt.what
        return None

    def _accept(self, batch: WalkedBatch) -> None:
        header = batch.header
        self._last_skipped = header.base_offset > self._expected_offset
        self._last = batch
        self._expected_offset = header.last_offset + 1

    def _is_doubtful(self, damage: str | None) -> bool:
        """Return whether the last batch must be removed: it skipped offsets, and its successor differs or is missing.

        In a compacted log leaps are normal.
        """
        if not self._last_skipped or not self._checks_crc:
            return False
        is_contradicted = damage is not None and damage.startswith("offset ")
        return is_contradicted or not self._may_skip_offsets

    def _commit_last(self, epochs: LeaderEpochs, producers: ProducerState | None) -> None:
        last, segment = self._last, self._segment
        if last is None:
            return
        header = last.header
        block_at = last.position - header.position
        segment.commit(block_at, (header,), self._config.index_interval_bytes)
        epochs.recover(header.partition_leader_epoch, header.base_offset, header.last_offset)
        if producers is not None and header.producer_id >= 0:
            completed = replay(producers, last.block, header)
            if completed is not None and completed.aborted:
                segment.transaction_index.append(aborted(producers, completed))


def replay(
    producers: ProducerState, buffer: Buffer, header: BatchHeader
) -> CompletedTransaction | None:
    """Apply a batch of the log to `producers`; `buffer` holds all of it if it is a control batch."""
    if not header.is_control:
        return producers.replay(header)
    return replay_marker(producers, header, decode_end_marker(buffer, header))


def replay_marker(
    producers: ProducerState, header: BatchHeader, marker: ControlMarker | None
) -> CompletedTransaction | None:
    """Apply a control batch, of which `marker` is the decoded content."""
    if marker is None:
        return None  # the cleaner has removed the whole transaction
    committed = marker.control_type is ControlType.COMMIT
    return producers.replay(header, EndMarker(committed, marker.coordinator_epoch))


def aborted(producers: ProducerState, completed: CompletedTransaction) -> AbortedTransaction:
    """Return the index entry of a transaction that was aborted just now."""
    still_open = producers.oldest_open_transaction
    last_stable_offset = completed.last_offset + 1 if still_open is None else still_open
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
    )
