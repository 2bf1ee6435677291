"""The high watermark: what may be read once may be read always."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.testing.simulation.events import Audited, Event, Read, WatermarkSeen
from kavka.testing.simulation.invariants.invariant import Invariant, Violation


class HighWatermarkOnlyGrows(Invariant):
    """No reader is told a lower high watermark than before, or gets a record above it."""

    says = "the high watermark never goes back for a reader"

    def __init__(self) -> None:
        """Know of no reader."""
        self._seen: dict[tuple[str, TopicPartition], int] = {}

    def observe(self, event: Event) -> None:
        """Follow the watermark of each reader."""
        match event:
            case WatermarkSeen(reader, partition, high_watermark):
                before = self._seen.get((reader, partition), 0)
                if high_watermark < before:
                    raise Violation(
                        f"{reader} saw the high watermark of {partition} go from {before} to {high_watermark}"
                    )
                self._seen[reader, partition] = high_watermark
            case Read(reader, partition, offset, _):
                high_watermark = self._seen.get((reader, partition), offset + 1)
                if offset >= high_watermark:
                    raise Violation(
                        f"{reader} read {partition} offset {offset} above the high watermark {high_watermark}"
                    )
            case Audited(partition, _, high_watermark, _):
                for (reader, seen_partition), seen in self._seen.items():
                    if seen_partition == partition and high_watermark < seen:
                        raise Violation(
                            f"{partition} ends at {high_watermark}, but {reader} was told {seen}"
                        )
            case _:
                pass
