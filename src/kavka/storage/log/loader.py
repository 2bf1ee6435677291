"""Open a partition's directory: tidy up, load the segments, recover what a crash left, bring the producers back."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence

from kavka.core.producer_state import ProducerState
from kavka.ids import TopicId
from kavka.storage.checkpoint.files import CorruptCheckpoint, read_file, replace_file
from kavka.storage.checkpoint.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from kavka.storage.checkpoint.partition_metadata import (
    PARTITION_METADATA,
    decode_partition_metadata,
    encode_partition_metadata,
    is_unfinished,
)
from kavka.storage.directory.log_creation import LogCreation, NewLog
from kavka.storage.disk.inline_disk import InlineDisk, finish
from kavka.storage.disk.partition_directory import OpenFiles, PartitionDirectory
from kavka.storage.failures import CorruptFile
from kavka.storage.log.crash_leftovers import log_base_offsets, remove_leftovers
from kavka.storage.log.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
)
from kavka.storage.log_config import NEVER, LogConfig
from kavka.storage.segment.batch_walk import BatchWalk, WalkedBatch
from kavka.storage.segment.recovery import Recovery, SegmentRecovery, replay
from kavka.storage.segment.segment import Segment
from kavka.values import field, frozen, mutable
from kavka.wire.records.corrupt import CorruptBatch

logger = logging.getLogger(__name__)

_NO_BOUND = 2**63 - 1


@frozen
class LoadRequest:
    """The arguments of opening a log."""

    config: LogConfig
    now_ms: int
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    topic_id: TopicId | None
    cleaner_offset: int | None = None

    @property
    def may_skip_offsets(self) -> bool:
        """Return whether offsets may be missing: the log is compacted, or was."""
        return self.config.is_compacted or self.cleaner_offset is not None


@mutable
class LoadedLog:
    """The state of an opened log; it has at least one segment."""

    segments: list[Segment]
    log_start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    topic_id: TopicId | None
    producers: ProducerState = field(factory=ProducerState)
    snapshot_offset: int = 0
    """Offset of the newest producer snapshot, 0 when there is none."""
    has_new_files: bool = False
    """True if the directory must be synced before its content counts as flushed."""
    is_new: bool = False
    """True if its topic id and the directory's own name must be synced, too."""
    is_settled: bool = False
    """True if a clean start would find the same: a stop has nothing to write while nothing changes."""
    recovery: Recovery = field(factory=Recovery)
    cleaner_offset: int | None = None


async def load_log(files: PartitionDirectory, request: LoadRequest) -> LoadedLog:
    """Open the directory of `files`, which is there. See `Log.open` for what is raised."""
    # Loading runs in the pool: its open files are its own until it is done.
    shared, files.open_files = files.open_files, OpenFiles(_NO_BOUND)
    try:
        return await _load(files, request)
    finally:
        files.open_files.close_all()
        files.open_files = shared


def load_logs(
    wanted: Sequence[tuple[PartitionDirectory, LoadRequest]],
) -> list[LoadedLog | CorruptFile]:
    """Load some logs, one after the other; of one that may not be truncated, return why.

    It blocks. Raise OSError. A start loads thousands, and one way to the pool and back for each step of each would take
    most of its time.
    """
    return [_load_in_pool(files, request) for files, request in wanted]


def _load_in_pool(files: PartitionDirectory, request: LoadRequest) -> LoadedLog | CorruptFile:
    disk, files.disk = files.disk, InlineDisk(files.disk)
    try:
        return finish(load_log(files, request))
    except CorruptFile as error:
        return error
    finally:
        files.disk = disk


async def _load(files: PartitionDirectory, request: LoadRequest) -> LoadedLog:
    disk = files.disk
    topic_id = await _load_topic_id(files, request.topic_id)
    names = await disk.run(remove_leftovers, files)
    epochs = await _load_epochs(files)
    segments = [Segment(files, base, request.now_ms) for base in log_base_offsets(names)]
    loaded = LoadedLog(
        segments, request.log_start_offset, 0, request.recovery_point, epochs, topic_id
    )
    await _load_segments(files, request, loaded)
    await _settle_offsets(files, request, loaded)
    loaded.cleaner_offset = request.cleaner_offset
    # The process that created it may have died before the first flush.
    loaded.is_new = not request.is_clean
    loaded.is_settled = request.is_clean and _is_settled(loaded)
    if not loaded.end_offset:
        # A clean stop syncs nothing of a log that never had a record.
        loaded.is_new = loaded.has_new_files = True
    return loaded


def _is_settled(loaded: LoadedLog) -> bool:
    """Return whether opening was only reading, and all files of a clean stop exist."""
    recovery = loaded.recovery
    was_repaired = recovery.checked_segments or recovery.rebuilt_segments or recovery.cut_bytes
    return (
        not was_repaired
        and not loaded.has_new_files
        and loaded.recovery_point == loaded.end_offset
        and loaded.snapshot_offset == loaded.end_offset
    )


async def make_log(
    files: PartitionDirectory, request: LoadRequest, creation: LogCreation
) -> LoadedLog | None:
    """Make the directory of `files` with an empty log; None when it is there already. Raise OSError."""
    start = request.log_start_offset
    segment = Segment(files, start, request.now_ms)
    file = await creation.make(NewLog(files.path, segment.data.name, request.topic_id))
    if file is None:
        return None
    segment.data.adopt(file)
    loaded = LoadedLog([segment], start, start, start, LeaderEpochs(), request.topic_id)
    loaded.has_new_files = loaded.is_new = True
    # Without a record it need not be on the medium: the next start creates it again, or finds it empty.
    loaded.is_settled = start == 0
    return loaded


async def _load_topic_id(files: PartitionDirectory, wanted: TopicId | None) -> TopicId | None:
    """Return the stored topic id, after storing `wanted` where there is none."""
    path = files.path_of(PARTITION_METADATA)
    content = await files.disk.run(read_file, files.disk, path)
    if content is not None and not is_unfinished(content):
        try:
            return decode_partition_metadata(content)
        except ValueError as error:
            raise CorruptFile(f"{path}: {error}") from error
    if wanted is not None:
        await files.disk.run(replace_file, files.disk, path, encode_partition_metadata(wanted))
    return wanted


async def _load_epochs(files: PartitionDirectory) -> LeaderEpochs:
    content = await files.disk.run(read_file, files.disk, files.path_of(LEADER_EPOCHS))
    if content is None:
        return LeaderEpochs()
    try:
        return LeaderEpochs.decode(content)
    except CorruptCheckpoint as error:
        logger.warning("leader epochs were lost log=%s reason=%s", files.path, error)
        return LeaderEpochs()


# Segments


async def _load_segments(
    files: PartitionDirectory, request: LoadRequest, loaded: LoadedLog
) -> None:
    """Load the flushed segments, then check the others after bringing the producers up to them."""
    segments = loaded.segments
    bases = [segment.base_offset for segment in segments]
    dirty = len(segments)
    if not request.is_clean and segments:
        # The one that ends at the recovery point may have been sealed since: its indexes are not to be trusted.
        dirty = max(bisect_left(bases, request.recovery_point) - 1, 0)
    for index in range(dirty):
        dirty = min(dirty, await _load_segment(files, request, loaded, index))
        if index >= dirty:
            break
    end_offset = segments[dirty - 1].next_offset if dirty else min(bases, default=0)
    if dirty < len(segments):
        end_offset = bases[dirty]
    loaded.snapshot_offset = await reload_producers(
        files, segments[:dirty], loaded.producers, end_offset, is_at_roll=dirty < len(segments)
    )
    loaded.has_new_files = dirty < len(segments)
    await _recover(files, request, loaded, dirty)


async def _load_segment(
    files: PartitionDirectory, request: LoadRequest, loaded: LoadedLog, index: int
) -> int:
    """Load a flushed segment, rebuilding its indexes if need be; return from where on recovery must check.

    That is its own index when it is the last one and damaged, or was cut, which a clean stop does not leave.
    """
    segments = loaded.segments
    segment = segments[index]
    is_last = index + 1 == len(segments)
    bound = _NO_BOUND if is_last else segments[index + 1].base_offset
    try:
        await files.disk.run(_load_one, segment, is_last, bound)
        return len(segments)
    except CorruptFile as error:
        logger.warning("indexes are rebuilt log=%s reason=%s", files.path, error)
    if is_last:
        return index
    recovery = SegmentRecovery(
        files.disk,
        segment,
        request.config,
        bound=bound,
        checks_crc=False,
        may_skip_offsets=request.may_skip_offsets,
    )
    # Which transactions were aborted depends on where they began, which may be before the segment.
    producers = await _producers_before(files, segments[:index], segment.base_offset)
    # The checkpoint has the epochs of all that was flushed, from the log's start on; this segment knows some of them.
    cut, damage = await recovery.run(LeaderEpochs(), producers)
    loaded.recovery.rebuilt_segments.append(segment.base_offset)
    _note_damage(loaded.recovery, files, cut, damage)
    segment.next_offset = bound
    segment.close_for_append()
    return len(segments)


def _load_one(segment: Segment, is_last: bool, next_base_offset: int) -> None:
    segment.load(is_active=is_last, next_base_offset=None if is_last else next_base_offset)


async def _recover(
    files: PartitionDirectory, request: LoadRequest, loaded: LoadedLog, first: int
) -> None:
    """Check the segments from `first` on; behind the first damage everything goes."""
    segments, recovery = loaded.segments, loaded.recovery
    must_sync = request.config.flush_messages != NEVER
    for index in range(first, len(segments)):
        segment = segments[index]
        is_last = index + 1 == len(segments)
        bound = _NO_BOUND if is_last else segments[index + 1].base_offset
        # A log that is not compacted any more may have gone to another directory since, or come from a leader's.
        may_leap = request.may_skip_offsets or bound <= request.recovery_point
        work = SegmentRecovery(
            files.disk,
            segment,
            request.config,
            bound=bound,
            checks_crc=True,
            may_skip_offsets=may_leap,
        )
        cut, damage = await work.run(loaded.epochs, loaded.producers)
        recovery.checked_segments.append(segment.base_offset)
        if damage is None and segment.next_offset < bound and not is_last and not may_leap:
            # A host crash may keep a segment and lose the end of the one before.
            damage = f"offsets {segment.next_offset} to {bound - 1} are missing"
        _note_damage(recovery, files, cut, damage)
        if must_sync:
            # The process that wrote this may have been killed before its sync; from now on it counts as replicated.
            await files.disk.run(segment.data.file().sync)
        if damage is not None:
            await files.disk.run(_drop, files, segments[index + 1 :], recovery)
            del segments[index + 1 :]
            break
        if not is_last:
            segment.close_for_append()
            segment.data.close()
            await _snapshot(files, loaded.producers, bound)
            loaded.snapshot_offset = bound
    if must_sync and first < len(segments):
        await files.disk.run(files.sync)


def _drop(files: PartitionDirectory, segments: list[Segment], recovery: Recovery) -> None:
    for segment in segments:
        recovery.cut_bytes += segment.data.file().size()
        recovery.dropped_segments.append(segment.base_offset)
        files.remove_all(segment.mark_deleted())


def _note_damage(
    recovery: Recovery, files: PartitionDirectory, cut: int, damage: str | None
) -> None:
    if damage is not None:
        recovery.cut_bytes += cut
        recovery.damage = recovery.damage or damage
        logger.warning(
            "log truncated by recovery log=%s bytes=%d reason=%s", files.path, cut, damage
        )


async def _settle_offsets(
    files: PartitionDirectory, request: LoadRequest, loaded: LoadedLog
) -> None:
    """Make start, end and recovery point agree with what is there."""
    segments = loaded.segments
    if segments and segments[-1].next_offset < request.log_start_offset:
        logger.warning(
            "log ended before its start and was emptied log=%s end_offset=%d start_offset=%d",
            files.path,
            segments[-1].next_offset,
            request.log_start_offset,
        )
        await files.disk.run(_drop, files, segments, loaded.recovery)
        segments.clear()
        loaded.producers.clear()
    if not segments:
        segment = Segment(files, request.log_start_offset, request.now_ms)
        await files.disk.run(segment.data.file)
        segments.append(segment)
        loaded.has_new_files = True
    loaded.end_offset = loaded.recovery.end_offset = segments[-1].next_offset
    loaded.log_start_offset = max(request.log_start_offset, segments[0].base_offset)
    loaded.recovery_point = min(request.recovery_point, loaded.end_offset)
    if request.is_clean and not loaded.recovery.checked_segments:
        loaded.recovery_point = loaded.end_offset
    loaded.epochs.truncate_from_end(loaded.end_offset)
    loaded.epochs.truncate_from_start(loaded.log_start_offset)


# Producers


async def reload_producers(
    files: PartitionDirectory,
    segments: list[Segment],
    producers: ProducerState,
    end_offset: int,
    *,
    is_at_roll: bool = False,
) -> int:
    """Load empty `producers` up to `end_offset`: the newest good snapshot below it, and the batches since.

    Store the snapshots of the segments between, which are missing or damaged, and with `is_at_roll` that of the segment
    at `end_offset`. Return the offset of the newest snapshot, 0 without one. Others are removed, except those at the
    start of a segment.
    """
    bases = {segment.base_offset for segment in segments}
    newest = await files.disk.run(_load_snapshot, files, producers, end_offset, bases)
    start = newest
    for segment in segments:
        if segment.base_offset > start and len(producers):
            await _snapshot(files, producers, segment.base_offset)
            newest = segment.base_offset
        await _replay_from(files, segment, producers, start)
    if is_at_roll and end_offset > start and len(producers):
        await _snapshot(files, producers, end_offset)
        newest = end_offset
    return newest


async def _snapshot(files: PartitionDirectory, producers: ProducerState, offset: int) -> None:
    """Store a producer snapshot before a segment at `offset`, as rolling does.

    Without it, producers that wrote only before it would be lost after the deletion of earlier segments. Raise OSError.
    """
    name, content = snapshot_name(offset), encode_snapshot(producers.entries())
    await files.disk.run(replace_file, files.disk, files.path_of(name), content)


async def _producers_before(
    files: PartitionDirectory, segments: list[Segment], offset: int
) -> ProducerState:
    """Return the producers as they were at `offset`, where `segments` end. All snapshots stay."""
    producers = ProducerState()
    start = 0
    for snapshot_offset in await files.disk.run(_snapshot_offsets, files):
        if snapshot_offset <= offset and await files.disk.run(
            _try_snapshot, files, producers, snapshot_offset
        ):
            start = snapshot_offset
            break
    for segment in segments:
        await _replay_from(files, segment, producers, start)
    return producers


async def _replay_from(
    files: PartitionDirectory, segment: Segment, producers: ProducerState, start: int
) -> None:
    """Replay what was written into a segment from `start` on."""
    if segment.next_offset <= start or segment.size == 0:
        return
    place = segment.locate(max(start, segment.base_offset))
    if place is None:
        return
    walk = BatchWalk(files.disk, segment.data, place[0], segment.size)
    while batches := await walk.next_block():
        for batch in batches:
            if batch.header.producer_id >= 0 and batch.header.base_offset >= start:
                _replay_flushed(files, producers, batch)


def _replay_flushed(
    files: PartitionDirectory, producers: ProducerState, batch: WalkedBatch
) -> None:
    """Replay a batch without a verified checksum since it was flushed."""
    try:
        replay(producers, batch.block, batch.header)
    except CorruptBatch as corrupt:
        logger.warning(
            "a transaction marker cannot be read log=%s position=%d reason=%s",
            files.path,
            batch.position,
            corrupt.what,
        )


def _load_snapshot(
    files: PartitionDirectory, producers: ProducerState, end_offset: int, bases: set[int]
) -> int:
    """Load the newest snapshot at or below `end_offset`; return its offset, 0 when there is none."""
    newest: int | None = None
    for offset in _snapshot_offsets(files):
        if newest is not None and offset in bases:
            continue
        if newest is None and offset <= end_offset and _try_snapshot(files, producers, offset):
            newest = offset
            continue
        files.remove_if_there(snapshot_name(offset))
    return newest or 0


def _snapshot_offsets(files: PartitionDirectory) -> list[int]:
    """Return the offsets of the snapshots that are there, the newest first."""
    offsets = [
        int(name.removesuffix(SNAPSHOT_SUFFIX))
        for name in files.disk.list(files.path)
        if name.endswith(SNAPSHOT_SUFFIX) and name.removesuffix(SNAPSHOT_SUFFIX).isdecimal()
    ]
    return sorted(offsets, reverse=True)


def _try_snapshot(files: PartitionDirectory, producers: ProducerState, offset: int) -> bool:
    """Load a snapshot; false when it is damaged."""
    path = files.path_of(snapshot_name(offset))
    try:
        producers.load(decode_snapshot(read_file(files.disk, path) or b""))
    except CorruptFile as error:
        logger.warning("a producer snapshot is damaged log=%s reason=%s", files.path, error)
        return False
    return True
