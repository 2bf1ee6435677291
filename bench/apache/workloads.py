"""The lines of the table: what is produced or consumed in each."""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 6


@dataclass(frozen=True)
class Workload:
    """One line. `records` is the full size; a quick run takes a tenth."""

    name: str
    records: int
    record_bytes: int
    settings: tuple[str, ...] = ()
    """Settings of the producer."""
    consumed: bool = False
    """True if consuming is measured (the topic is filled before)."""

    @property
    def slug(self) -> str:
        """The name as part of a topic's name."""
        return "".join(c if c.isalnum() else "-" for c in self.name)


_ONE_RECORD = ("acks=1", "batch.size=1", "linger.ms=0")

WORKLOADS = (
    Workload("produce 100 B, acks=1", 3_000_000, 100, ("acks=1",)),
    Workload("produce 100 B, acks=all", 3_000_000, 100, ("acks=all",)),
    Workload("produce 1 KB, acks=1", 600_000, 1000, ("acks=1",)),
    Workload("produce 1 KB, acks=all", 600_000, 1000, ("acks=all",)),
    Workload("produce 100 B, acks=all, lz4", 2_000_000, 100, ("acks=all", "compression.type=lz4")),
    Workload("produce 1 KB, acks=all, lz4", 400_000, 1000, ("acks=all", "compression.type=lz4")),
    Workload("produce 100 B, one record a request", 150_000, 100, _ONE_RECORD),
    Workload("consume 100 B", 3_000_000, 100, ("acks=1",), consumed=True),
    Workload("consume 1 KB", 600_000, 1000, ("acks=1",), consumed=True),
)
