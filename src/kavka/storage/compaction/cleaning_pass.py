"""A cleaning pass over a log: its dirty part into a map, then all segments against the map, group by group.

Reads, kernel calls and writes happen in the pool, a block at a time; after each the pass asks whether it is to
continue.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence
from struct import pack

from kavka.io import Disk
from kavka.storage.checkpoint.leader_epochs import LeaderEpochs
from kavka.storage.compaction.batch_filter import CleaningRound, filter_block, index_block
from kavka.storage.compaction.cleanable_log import Dirtiness, dirty_segments, group_segments
from kavka.storage.compaction.cleaned_transactions import CleanedTransactions
from kavka.storage.disk.partition_directory import SegmentDeleted
from kavka.storage.failures import LogClosed, LogDirectoryFailed
from kavka.storage.log.cleaned_segment import CleanedSegment
from kavka.storage.log.log import Log
from kavka.storage.segment.segment import Segment
from kavka.values import frozen, mutable
from kavka.wire.records import kernel
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, LENGTH_END

SLOT_BYTES = 24
_MIN_SLOTS = 16
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Uncleanable(Exception):
    """The log cannot be cleaned as it is: a batch is damaged, or holds more keys than the map."""


class PassEnded(Exception):
    """The pass was given up: the broker stops, or the log was cut, moved or closed. What was swapped in counts."""


@frozen
class CleanerLimits:
    """Limits of one pass."""

    map_bytes: int
    load_factor: float
    block_bytes: int
    spend: Callable[[int], Awaitable[bool]]
    """Called with the bytes read or written; waits for the throttle, and returns whether to continue."""


@mutable
class PassReport:
    """Statistics of a pass."""

    end_offset: int
    """The log is clean below; where the next pass begins."""
    read_bytes: int = 0
    """Of both walks, the one into the map and the one that rewrites."""
    rewritten_bytes: int = 0
    written_bytes: int = 0
    """Bytes that remain of those that were rewritten."""
    map_use: float = 0.0
    """The share of the map's room that was used."""


class CleaningPass:
    """A pass over `log`, as far as `dirtiness` says. `run` once."""

    def __init__(self, log: Log, dirtiness: Dirtiness, limits: CleanerLimits) -> None:
        """Prepare a pass that has not begun."""
        self._log = log
        self._dirtiness = dirtiness
        self._limits = limits
        self._truncation_count = log.truncation_count
        self._report = PassReport(dirtiness.first_dirty_offset)
        self._segments = [
            segment
            for segment in log.segments
            if segment.base_offset < dirtiness.first_uncleanable_offset
        ]

    async def run(self) -> PassReport:
        """Clean the log; return the report. Raise Uncleanable, PassEnded, LogDirectoryFailed."""
        log = self._log
        assert not log.is_being_cleaned, "two passes over one log"
        log.is_being_cleaned = True
        try:
            offsets = await self._index()
            await self._rewrite(offsets)
            self._check_unchanged()
        except CorruptBatch as error:
            self._check_unchanged()  # what was read may have been cut in between
            raise Uncleanable(f"{log.path}: {error}") from error
        except SegmentDeleted as error:
            raise PassEnded(f"{error} is gone") from error
        except LogClosed as error:
            raise PassEnded(str(error)) from error
        except LogDirectoryFailed:
            raise
        except OSError as error:
            self._check_unchanged()  # the files of a deleted log may be gone
            if error.errno in _DISK_FULL:
                raise PassEnded(f"there is no room for a cleaned segment: {error}") from error
            raise log.directory.fail(error) from error
        finally:
            log.is_being_cleaned = False
        return self._report

    def _check_unchanged(self) -> None:
        """Raise PassEnded when what was read does not count any more, or is about to be cut."""
        if not self._log.replacement.is_untruncated(self._truncation_count):
            raise PassEnded(f"{self._log.path} was cut or closed")

    # The map

    async def _index(self) -> kernel.OffsetMap:
        """Read the dirty part into a map, as far as there is room."""
        start, bound = self._dirtiness.first_dirty_offset, self._dirtiness.first_uncleanable_offset
        dirty = dirty_segments([*self._segments, *self._log.segments[-1:]], start)
        if not dirty:
            raise PassEnded(f"what was dirty of {self._log.path} is gone")
        offsets = self._new_map(bound - start)
        transactions = self._transactions(dirty)
        indexed = start - 1
        for segment, end in zip(dirty, self._ends(dirty), strict=True):
            last_offset, is_full = await self._index_segment(segment, offsets, transactions)
            indexed = max(indexed, last_offset if is_full else end - 1)
            if is_full:
                break
        if indexed < start:
            raise Uncleanable(
                f"{self._log.path}: the batch at offset {start} or after has more keys than fit into "
                f"{self._limits.map_bytes} bytes (log.cleaner.dedupe.buffer.size)"
            )
        self._report.map_use = len(offsets) / offsets.capacity
        self._report.end_offset = indexed + 1
        return offsets

    async def _index_segment(
        self, segment: Segment, offsets: kernel.OffsetMap, transactions: CleanedTransactions
    ) -> tuple[int, bool]:
        """Return the last offset that is in the map, and whether the next batch found no room."""
        disk, start = self._log.directory.disk, self._dirtiness.first_dirty_offset
        last_offset = -1
        reader = _BlockReader(disk, segment, self._limits.block_bytes)
        try:
            while block := await self._read(reader):
                found = await disk.run(index_block, block, offsets, transactions, start)
                last_offset = max(last_offset, found.last_offset)
                if found.is_full:
                    return last_offset, True
                reader.advance(found.position)
        finally:
            reader.close()
        return last_offset, False

    def _new_map(self, records: int) -> kernel.OffsetMap:
        """Return an empty map with room for so many keys, or for as many as memory allows."""
        most = self._limits.map_bytes // SLOT_BYTES
        wanted = int(records / self._limits.load_factor) + 2
        slots = max(_MIN_SLOTS, min(most, wanted))
        capacity = max(1, min(slots - 1, int(slots * self._limits.load_factor)))
        seed = self._log.directory.random.random_bytes(16)
        return kernel.OffsetMap(slots, capacity, seed)

    def _transactions(self, segments: Sequence[Segment]) -> CleanedTransactions:
        end = self._dirtiness.first_uncleanable_offset
        return CleanedTransactions(self._log.aborted_transactions(segments[0].base_offset, end))

    def _ends(self, segments: Sequence[Segment]) -> list[int]:
        """Return where the next segment begins, for each."""
        return [s.base_offset for s in segments[1:]] + [self._dirtiness.first_uncleanable_offset]

    # The segments

    async def _rewrite(self, offsets: kernel.OffsetMap) -> None:
        end_offset, bound = self._report.end_offset, self._dirtiness.first_uncleanable_offset
        log = self._log
        if log.recovery_point < end_offset:
            await log.flush()  # no value goes for a newer one that a loss of power would take
        last_of_producers, epochs = await log.last_of_producers(bound)
        self._check_unchanged()
        now_ms = log.directory.clock.now_ms()
        work = CleaningRound(
            offsets,
            end_offset - 1,
            now_ms,
            now_ms + log.config.delete_retention_ms,
            last_of_producers,
            epochs,
            bound - 1,
            _packed_starts(log.epochs),
        )
        going = [segment for segment in self._segments if segment.base_offset < end_offset]
        ends = dict(zip(self._segments, self._ends(self._segments), strict=True))
        transactions = self._transactions(going)
        for run in group_segments(going, log.config, ends[going[-1]]):
            await self._rewrite_group(run, ends[run[-1]], work, transactions)

    async def _rewrite_group(
        self, run: list[Segment], end: int, work: CleaningRound, transactions: CleanedTransactions
    ) -> None:
        """Write what stays of a run of segments as one, and put that in their place."""
        cleaned = self._log.replacement.new_segment(run, end)
        await cleaned.create()
        try:
            for segment in run:
                await self._rewrite_segment(segment, cleaned, work, transactions)
            await cleaned.finish()
        except BaseException:
            await cleaned.discard()
            raise
        if not await self._log.replacement.replace(run, cleaned, self._truncation_count):
            raise PassEnded(f"{self._log.path} was changed")

    async def _rewrite_segment(
        self,
        segment: Segment,
        cleaned: CleanedSegment,
        work: CleaningRound,
        transactions: CleanedTransactions,
    ) -> None:
        disk = self._log.directory.disk
        reader = _BlockReader(disk, segment, self._limits.block_bytes)
        try:
            while block := await self._read(reader):
                position, kept = await disk.run(filter_block, block, work, transactions)
                reader.advance(position)
                await cleaned.write(kept, transactions.take_retained())
                self._report.rewritten_bytes += position
                self._report.written_bytes += len(kept)
                await self._spend(len(kept))
        finally:
            reader.close()

    async def _read(self, reader: _BlockReader) -> bytes:
        block = await reader.read()
        self._report.read_bytes += len(block)
        await self._spend(len(block))
        return block

    async def _spend(self, count: int) -> None:
        if not await self._limits.spend(count):
            raise PassEnded("the cleaner stops")
        self._check_unchanged()


def _packed_starts(epochs: LeaderEpochs) -> bytes:
    """Return the first offsets of leader epochs; no log ever had records of an epoch before 0."""
    starts = [entry.start_offset for entry in epochs.entries if entry.epoch > 0]
    return pack(f"={len(starts)}q", *starts)


class _BlockReader:
    """The bytes of a segment in blocks, each of which begins with a batch. Close it."""

    def __init__(self, disk: Disk, segment: Segment, block_bytes: int) -> None:
        """Pin the file. Raise SegmentDeleted when the segment has left the log."""
        self._disk = disk
        self._data = segment.data
        self._file = segment.data.pin()
        self._position = 0
        self._end = segment.size
        self._block_bytes = self._next_bytes = block_bytes
        self._block = b""

    async def read(self) -> bytes:
        """Return the next block, nothing at the end. Raise CorruptBatch when the file ends before its segment."""
        length = min(self._next_bytes, self._end - self._position)
        if length == 0:
            return b""
        self._block = await self._disk.run(self._file.read_at, length, self._position)
        if len(self._block) < length:
            end = self._position + len(self._block)
            raise CorruptBatch(f"{self._data.path} ends before byte {self._end}", end)
        return self._block

    def advance(self, used: int) -> None:
        """Continue behind the first `used` bytes of the block; after 0 the next one holds its first batch whole.

        Raise CorruptBatch when the file ends before that batch does.
        """
        self._position += used
        self._next_bytes = self._block_bytes
        if used:
            return
        block, left = self._block, self._end - self._position
        size = int.from_bytes(block[8:LENGTH_END], "big") + LENGTH_END
        if len(block) < HEADER_SIZE or not len(block) < size <= left:
            raise CorruptBatch(
                f"a batch of {size} bytes where {left} are left of {self._data.path}",
                self._position,
            )
        self._next_bytes = size

    def close(self) -> None:
        """Close the file."""
        self._data.unpin()
