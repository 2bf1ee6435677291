"""Offsets: a plain log has no holes, and a reader skips nothing."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import Audited, Event, PositionReset, PowerLost, Read
from kavka.simulation.invariants.invariant import Invariant, Violation


class OffsetsHaveNoGaps(Invariant):
    """A reader gets each offset after the one before; the audit finds every offset from the log's start to its end."""

    says = "offsets of a partition have no gaps and no repetition"

    def __init__(self) -> None:
        """Begin without readers."""
        self._next: dict[tuple[str, TopicPartition], int] = {}

    def observe(self, event: Event) -> None:
        """Follow each reader."""
        match event:
            case PositionReset(reader, partition):
                self._next.pop((reader, partition), None)
            case Read(reader, partition, offset, _):
                expected = self._next.get((reader, partition), offset)
                if offset != expected:
                    raise Violation(
                        f"{reader} read {partition} offset {offset} after {expected - 1}"
                    )
                self._next[reader, partition] = offset + 1
            case Audited(partition, log_start_offset, high_watermark, records):
                found = [offset for offset, _ in records]
                if found != list(range(log_start_offset, high_watermark)):
                    raise Violation(
                        f"{partition} holds {log_start_offset} to {high_watermark}, but gave {_ranges(found)}"
                    )
            case PowerLost():
                self._next.clear()  # the end of a log may have gone back
            case _:
                pass


def _ranges(offsets: list[int]) -> str:
    """Return runs of offsets as `3-7 9-9`."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return " ".join(f"{first}-{last}" for first, last in runs) or "nothing"
