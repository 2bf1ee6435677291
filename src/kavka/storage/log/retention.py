"""Choice of the segments to delete: the oldest ones, whole, and never above the high watermark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.storage.log_config import LogConfig
from kavka.storage.segment.segment import Segment
from kavka.values import frozen


@frozen
class Retention:
    """Retention's view of one log; `segments` are oldest first, the last one active."""

    segments: Sequence[Segment]
    config: LogConfig
    log_start_offset: int
    end_offset: int
    high_watermark: int
    now_ms: int

    def count(self) -> int:
        """Return how many segments, from the oldest on, may go for any reason."""
        count = self._count_where(self._is_below_start)
        if self.config.deletes:
            count = max(count, self._count_expired(), self._count_oversized())
        return count

    def _is_below_start(self, index: int) -> bool:
        following = index + 1
        return (
            following < len(self.segments)
            and self.segments[following].base_offset <= self.log_start_offset
        )

    def _count_expired(self) -> int:
        """Count by the newest record of each segment; one without timestamps counts from when it was opened."""
        if self.config.retention_ms < 0:
            return 0
        horizon = self.now_ms - self.config.retention_ms

        def is_expired(index: int) -> bool:
            segment = self.segments[index]
            newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
            return newest < horizon

        return self._count_where(is_expired)

    def _count_oversized(self) -> int:
        """Count so that what stays is not below the limit."""
        if self.config.retention_bytes < 0:
            return 0
        surplus = sum(segment.size for segment in self.segments) - self.config.retention_bytes

        def is_surplus(index: int) -> bool:
            nonlocal surplus
            surplus -= self.segments[index].size
            return surplus >= 0

        return self._count_where(is_surplus)

    def _count_where(self, applies: Callable[[int], bool]) -> int:
        for index, segment in enumerate(self.segments):
            is_last = index + 1 == len(self.segments)
            end = self.end_offset if is_last else self.segments[index + 1].base_offset
            is_empty_end = is_last and segment.reserved_size == 0
            if is_empty_end or self.high_watermark < end or not applies(index):
                return index
        return len(self.segments)
