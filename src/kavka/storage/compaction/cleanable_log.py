"""Choice of the log to clean next, the offset to clean up to, and the grouping of its segments.

Source: Kafka's `LogCleanerManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.storage.segment import offset_index, time_index
from kavka.storage.segment.segment import Segment
from kavka.values import frozen

T = TypeVar("T")

_MAX_RELATIVE_OFFSET = 2**31 - 1


@frozen
class Dirtiness:
    """The work that a pass over a log would do now."""

    first_dirty_offset: int
    """Everything below was cleaned against everything below."""
    first_uncleanable_offset: int
    """The base offset of a segment: that one and all after it are left alone."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """Milliseconds by which the oldest dirty record exceeds `max.compaction.lag.ms`; 0 when it does not."""

    @property
    def ratio(self) -> float:
        """The share of what would be rewritten that is dirty."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Return whether the log is dirty enough, or a record has waited too long."""
        if self.cleanable_bytes == 0:
            return False
        return self.delay_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio


def first_dirty(cleaner_offset: int | None, log_start_offset: int, log_end_offset: int) -> int:
    """Return where the dirty part begins; a checkpoint that does not lie in the log says nothing."""
    if cleaner_offset is None or not log_start_offset <= cleaner_offset <= log_end_offset:
        return log_start_offset
    return cleaner_offset


async def log_dirtiness(log: Log, last_stable_offset: int) -> Dirtiness:
    """Measure what a pass would clean below `last_stable_offset`, and how urgent that is."""
    start = first_dirty(log.cleaner_offset, log.log_start_offset, log.log_end_offset)
    if log.config.has_max_compaction_lag:
        await _learn_first_timestamps(log, start)
    return measure_dirtiness(
        log.segments,
        log.config,
        first_dirty_offset=start,
        last_stable_offset=last_stable_offset,
        now_ms=log.directory.clock.now_ms(),
    )


async def _learn_first_timestamps(log: Log, first_dirty_offset: int) -> None:
    """Read the first batch of dirty segments that were loaded closed."""
    for segment in dirty_segments(log.segments, first_dirty_offset):
        if segment.size and segment.first_timestamp < 0 and not segment.data.is_discarded:
            file = segment.data.pin()
            try:
                await log.directory.disk.run(file.read_at, 1, 0)
                segment.first_timestamp = next(segment.outlines(0)).max_timestamp
            finally:
                segment.data.unpin()


def measure_dirtiness(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    first_dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> Dirtiness:
    """Measure a log; the last segment is active, dirty closed ones have their first timestamps if needed."""
    dirty = dirty_segments(segments, first_dirty_offset)
    bound = min(last_stable_offset, segments[-1].base_offset)
    lag_ms = config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (s.base_offset for s in dirty if s.max_timestamp > now_ms - lag_ms)
        bound = min(bound, next(young, bound))
    bound = max(bound, first_dirty_offset)
    bound = max((s.base_offset for s in segments if s.base_offset <= bound), default=0)
    cleanable = [segment for segment in dirty if segment.base_offset < bound]
    return Dirtiness(
        first_dirty_offset,
        bound,
        sum(s.size for s in segments if s.base_offset < min(first_dirty_offset, bound)),
        sum(s.size for s in cleanable),
        _delay_ms(dirty, config, now_ms),
    )


def dirty_segments(segments: Sequence[Segment], first_dirty_offset: int) -> list[Segment]:
    """Return the closed segments that hold offsets from `first_dirty_offset` on."""
    ends = (segment.base_offset for segment in segments[1:])
    return [s for s, end in zip(segments, ends, strict=False) if end > first_dirty_offset]


def _delay_ms(dirty: Iterable[Segment], config: LogConfig, now_ms: int) -> int:
    times = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    return max(0, now_ms - config.max_compaction_lag_ms - min(times, default=now_ms))


def dirtiest_log(found: Iterable[tuple[T, Dirtiness]]) -> tuple[T, Dirtiness] | None:
    """Return the one with the largest share of dirty bytes; of equal ones the first."""
    return max(found, key=lambda one: one[1].ratio, default=None)


def group_segments(
    segments: Sequence[Segment], config: LogConfig, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Split the segments into runs that fit into one segment, by bytes of log and indexes and by offsets.

    So no pass needs more room on the disk than one segment takes, and small segments become few.
    """
    groups: list[list[Segment]] = []
    ends = [s.base_offset for s in segments[1:]] + [first_uncleanable_offset]
    sizes = (0, 0, 0)
    for segment, end in zip(segments, ends, strict=True):
        own = (
            segment.size,
            segment.offset_index.entries * offset_index.ENTRY_BYTES,
            segment.time_index.entries * time_index.ENTRY_BYTES,
        )
        together = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        fits = all(size <= limit for size, limit in zip(together, limits, strict=True))
        if groups and fits and end - 1 - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = own
    return groups
