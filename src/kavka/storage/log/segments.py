"""The segments of one log, and the offsets between which they lie.

    log_start_offset      high watermark   written_offset    end_offset
    |--- segments ------------|-----------------|- - queued - - |
                      |--- active segment ---->
              recovery_point: all below is on the medium

Invariant: log_start_offset <= written_offset <= end_offset. The leader allocates offsets from `end_offset` on; bytes
in the queue of a slow disk have theirs already and cannot be read yet. The high watermark belongs to `core`, the
recovery point to `flusher`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kavka.storage.log.context import LogContext
from kavka.storage.segment.segment import Segment


class LogSegments:
    """The list of segments, oldest first.

    Other parts read its attributes and change them by its methods, except for the offsets that an append moves.
    """

    __slots__ = (
        "_base_offsets",
        "_context",
        "active",
        "all",
        "end_offset",
        "log_start_offset",
        "replacements",
        "truncation_count",
        "written_offset",
    )

    def __init__(
        self, context: LogContext, segments: list[Segment], log_start_offset: int, end_offset: int
    ) -> None:
        """Take over at least one segment, which ends at `end_offset`."""
        self._context = context
        self.all = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.active.jitter_ms = self._next_jitter_ms()
        self.log_start_offset = log_start_offset
        self.written_offset = self.end_offset = end_offset
        self.truncation_count = 0
        """Number of truncations: offsets that were read before may have other records since."""
        self.replacements = 0
        """Number of times that cleaned segments replaced others."""

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self.all)

    @property
    def first_offset(self) -> int:
        """The base offset of the oldest segment."""
        return self._base_offsets[0]

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """Return the segment of `offset` and all after it; all when it lies before them."""
        return self.all[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def count_before(self, offset: int) -> int:
        """Return how many segments begin below `offset`."""
        return bisect_left(self._base_offsets, offset)

    def new(self, base_offset: int) -> Segment:
        """Return an empty segment that is not in the list yet."""
        context = self._context
        now_ms = context.directory.clock.now_ms()
        return Segment(context.files, base_offset, now_ms, self._next_jitter_ms())

    def _next_jitter_ms(self) -> int:
        config = self._context.config
        bound = min(config.segment_jitter_ms, config.segment_ms)
        return int(self._context.directory.random.random() * bound) if bound > 0 else 0

    def add(self, segment: Segment) -> None:
        """Append an empty segment, the active one from now on."""
        self.all.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def remove_oldest(self, count: int) -> list[Segment]:
        """Remove `count` segments from the start and return them."""
        removed = self.all[:count]
        del self.all[:count], self._base_offsets[:count]
        return removed

    def remove_newest(self, kept: int) -> list[Segment]:
        """Remove all but the `kept` oldest segments and return them. `end_with` must follow."""
        removed = self.all[kept:]
        del self.all[kept:], self._base_offsets[kept:]
        return removed

    def restart_with(self, segment: Segment) -> None:
        """Replace all segments by one empty segment."""
        self.all[:], self._base_offsets[:] = [segment], [segment.base_offset]
        self.log_start_offset = segment.base_offset
        self.end_with(segment, segment.base_offset)

    def end_with(self, active: Segment, end_offset: int) -> None:
        """Set the active segment and the end offset after a truncation."""
        self.truncation_count += 1
        self.active = active
        self.written_offset = self.end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)

    def has_closed_run(self, run: Sequence[Segment]) -> bool:
        """Return whether the run of segments is still in the log, and not its end."""
        if run[0] not in self.all or self.active in run:
            return False
        first = self.all.index(run[0])
        return all(a is b for a, b in zip(self.all[first:], run, strict=False)) and (
            first + len(run) < len(self.all)
        )

    def replace(self, run: Sequence[Segment], new: Segment) -> None:
        """Replace a run of segments by one."""
        first = self.all.index(run[0])
        self.all[first : first + len(run)] = [new]
        self._base_offsets[first : first + len(run)] = [new.base_offset]
        self.replacements += 1
