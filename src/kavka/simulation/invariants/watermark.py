"""The high watermark: what may be read once may be read always."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import (
    Audited,
    Event,
    Read,
    UncleanElection,
    WatermarkSeen,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class HighWatermarkOnlyGrows(Invariant):
    """A leader never returns a lower high watermark than before, nor a record above it.

    A leader that has just been elected may know a lower one than the leader before, until its followers have fetched
    once: it gives no records above it, and refuses to name the end of its log (KIP-207). A follower that has started
    again may know a lower one than before; an unclean election moves the ends of earlier leaders back to the end
    of the elected log.
    """

    says = "the high watermark never goes back for a reader"

    def __init__(self) -> None:
        """Begin without readers."""
        self._seen: dict[tuple[str, TopicPartition], tuple[int, int]] = {}  # epoch, watermark
        self._last: dict[tuple[str, TopicPartition], int] = {}  # by leader or follower
        self._most: dict[tuple[str, TopicPartition], int] = {}
        self._elections: dict[TopicPartition, list[UncleanElection]] = {}

    def observe(self, event: Event) -> None:
        """Follow the watermark of each reader."""
        match event:
            case WatermarkSeen(reader, partition, high_watermark, leader_epoch, follower):
                key = (reader, partition)
                self._last[key] = high_watermark
                if follower < 0:
                    self._returned_by_leader(key, high_watermark, leader_epoch)
                for election in self._elections.get(partition, ()):
                    if leader_epoch < election.leader_epoch:
                        high_watermark = min(high_watermark, election.end_offset)
                self._most[key] = max(high_watermark, self._most.get(key, 0))
            case UncleanElection(partition=partition, end_offset=end_offset):
                self._elections.setdefault(partition, []).append(event)
                for key in self._most:
                    if key[1] == partition:
                        self._most[key] = min(self._most[key], end_offset)
            case Read(reader, partition, offset, _):
                high_watermark = self._last.get((reader, partition), offset + 1)
                if offset >= high_watermark:
                    raise Violation(
                        f"{reader} read {partition} offset {offset} above the high watermark {high_watermark}"
                    )
            case Audited(partition, _, high_watermark, _):
                for (reader, seen_partition), seen in self._most.items():
                    if seen_partition == partition and high_watermark < seen:
                        raise Violation(
                            f"{partition} ends at {high_watermark}, but {reader} had got {seen}"
                        )
            case _:
                pass

    def _returned_by_leader(
        self, key: tuple[str, TopicPartition], high_watermark: int, leader_epoch: int
    ) -> None:
        epoch, before = self._seen.get(key, (leader_epoch, 0))
        if epoch == leader_epoch and high_watermark < before:
            raise Violation(
                f"{key[0]} saw the high watermark of {key[1]} go from {before} to {high_watermark}"
            )
        self._seen[key] = (leader_epoch, high_watermark)
