"""The lines of the table: who produces and consumes, and how the topic is replicated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PARTITIONS = 6


class Replication(Enum):
    """The number of replicas of a topic, and of those for which a producer waits."""

    NONE = "no replication"
    ASYNCHRONOUS = "3 replicas, acks=1"
    SYNCHRONOUS = "3 replicas, acks=all"

    @property
    def factor(self) -> int:
        """The number of replicas."""
        return 1 if self is Replication.NONE else 3

    @property
    def producer_settings(self) -> tuple[str, ...]:
        """All else is the tool's default: with acks=all that is idempotence."""
        return ("acks=all" if self is Replication.SYNCHRONOUS else "acks=1",)

    @property
    def topic_settings(self) -> dict[str, str]:
        """Of three replicas two must have an acknowledged record, where the producer waits for replicas."""
        return {"min.insync.replicas": "2"} if self is Replication.SYNCHRONOUS else {}


@dataclass(frozen=True)
class Workload:
    """One line. `records` is how many each producer sends, or each consumer reads; a quick run takes a tenth."""

    name: str
    replication: Replication
    records: int
    producers: int = 0
    consumers: int = 0
    """Each reads everything, in a group of its own. Without producers the topic is filled before."""
    record_bytes: int = 100

    @property
    def slug(self) -> str:
        """The name as part of a topic's name."""
        return "".join(c if c.isalnum() else "-" for c in self.name)

    @property
    def moved(self) -> int:
        """Number of records by which CPU is divided: those produced, or else those consumed."""
        return self.records * (self.producers or self.consumers)


def _produced(
    name: str, how: Replication, records: int, producers: int = 1, size: int = 100
) -> Workload:
    return Workload(f"{name}, {how.value}", how, records, producers, record_bytes=size)


_NONE, _ASYNC, _SYNC = Replication.NONE, Replication.ASYNCHRONOUS, Replication.SYNCHRONOUS

ONE_ALONE = _produced("1 producer", _NONE, 2_000_000)
ONE_ASYNC = _produced("1 producer", _ASYNC, 1_500_000)
ONE_SYNC = _produced("1 producer", _SYNC, 1_500_000)
THREE_ALONE = _produced("3 producers", _NONE, 1_000_000, 3)
THREE_ASYNC = _produced("3 producers", _ASYNC, 500_000, 3)
THREE_SYNC = _produced("3 producers", _SYNC, 500_000, 3)
ONE_LARGE = _produced("1 producer of 1 KB", _SYNC, 200_000, size=1000)
ONE_READS = Workload("1 consumer", _ASYNC, 3_000_000, consumers=1)
THREE_READ = Workload("3 consumers", _ASYNC, 2_000_000, consumers=3)
BOTH_ASYNC = Workload(f"1 producer with 1 consumer, {_ASYNC.value}", _ASYNC, 1_500_000, 1, 1)
BOTH_SYNC = Workload(f"1 producer with 1 consumer, {_SYNC.value}", _SYNC, 1_500_000, 1, 1)

WORKLOADS = (
    ONE_ALONE,
    ONE_ASYNC,
    ONE_SYNC,
    THREE_ALONE,
    THREE_ASYNC,
    THREE_SYNC,
    ONE_LARGE,
    ONE_READS,
    THREE_READ,
    BOTH_ASYNC,
    BOTH_SYNC,
)

LINKEDIN = (
    (ONE_ASYNC, ONE_ALONE, 0.958),
    (ONE_SYNC, ONE_ALONE, 0.513),
    (THREE_ASYNC, ONE_ASYNC, 2.57),
    (THREE_READ, ONE_READS, 2.78),
    (BOTH_ASYNC, ONE_ASYNC, 1.01),
)
"""One line's throughput divided by another's, in "2 Million Writes Per Second (On Three Cheap Machines)", 2014."""
