"""Anomalies of a history, one class each, named as Jepsen names them where it has a name.

An anomaly carries the operations and records that contradict each other; `explain` says it in words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kavka.ids import TopicPartition
from kavka.testing.history.facts import Read, Transaction, Unit, Write
from kavka.testing.history.operations import Operation, Record


class Anomaly(ABC):
    """A contradiction. `name` is its kind, `says` what the kind means."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abstractmethod
    def explain(self) -> str:
        """Return which records, offsets, processes and times contradict each other."""

    def __str__(self) -> str:
        """Return the name and the explanation."""
        return f"{self.name}: {self.explain()}"


@dataclass(frozen=True, slots=True)
class LostWrite(Anomaly):
    """`evidence` is the operation that should have seen it: the highest read of the partition, or a scan."""

    name = "lost-write"
    says = "an acknowledged record cannot be read although records above it, or the end, were read"

    write: Write
    evidence: Read | Operation

    def explain(self) -> str:
        """Return what was acknowledged and what was read instead."""
        if isinstance(self.evidence, Read):
            return f"no consumer read {self.write}, but one read {self.evidence}"
        return f"no consumer read {self.write}, and {self.evidence} read the whole partition"


@dataclass(frozen=True, slots=True)
class VanishedRead(Anomaly):
    """The record was there and is there no more."""

    name = "vanished-read"
    says = "a record that was read is not in the log any more"

    read: Read
    scan: Operation

    def explain(self) -> str:
        """Name the operations that saw it and that did not."""
        return f"{self.read} is not found by {self.scan}, which read the whole partition"


@dataclass(frozen=True, slots=True)
class Duplicate(Anomaly):
    """A send with several records."""

    name = "duplicate"
    says = "a value that was sent once was read at two offsets"

    write: Write | None
    reads: tuple[Read, ...]

    def explain(self) -> str:
        """Return where it was read."""
        sent = "a value" if self.write is None else str(self.write)
        return f"{sent} was read as {'; as '.join(map(str, self.reads))}"


@dataclass(frozen=True, slots=True)
class InconsistentOffsets(Anomaly):
    """Either two values at an offset, or a value that is not where its acknowledgement says."""

    name = "inconsistent-offsets"
    says = "two values were seen at one offset, or a value elsewhere than its acknowledgement said"

    partition: TopicPartition
    offset: int
    seen: tuple[Read | Write, ...]

    def explain(self) -> str:
        """Name the operations and their values."""
        return f"{self.partition} offset {self.offset}: {'; but '.join(map(str, self.seen))}"


@dataclass(frozen=True, slots=True)
class UnwrittenRead(Anomaly):
    """Garbage, or a record in another partition's log, or one from the future."""

    name = "unwritten-read"
    says = "a record was read that had not been sent to this partition by then"

    read: Read
    write: Write | None

    def explain(self) -> str:
        """Return what was read, and what was sent."""
        if self.write is None:
            return f"{self.read}, but it was not sent"
        return f"{self.read}, but what was sent is {self.write}"


@dataclass(frozen=True, slots=True)
class FailedWriteRead(Anomaly):
    """Jepsen counts it to G1a."""

    name = "failed-write-read"
    says = "a record was read whose send surely failed"

    read: Read
    write: Write

    def explain(self) -> str:
        """Name the failed send and the read."""
        return f"{self.read}, but the send failed: {self.write} ({self.write.operation.error})"


@dataclass(frozen=True, slots=True)
class AbortedRead(Anomaly):
    """G1a: a read of what was rolled back."""

    name = "aborted-read"
    says = "a record of an aborted transaction was read (G1a)"

    read: Read
    transaction: Transaction

    def explain(self) -> str:
        """Name the abort and the read."""
        end = "it was never committed"
        if self.transaction.end is not None:
            end = f"it ended with {self.transaction.end}"
        return f"{self.read} belongs to {self.transaction}: {end}"


@dataclass(frozen=True, slots=True)
class PrecommittedRead(Anomaly):
    """Also of the reader's own records, which other databases show."""

    name = "precommitted-read"
    says = "a record was read before its transaction's commit was requested, be it by the transaction itself"

    read: Read
    transaction: Transaction

    def explain(self) -> str:
        """Return when it was read and when committed."""
        return f"{self.read}, before {self.transaction} was committed by {self.transaction.commit}"


@dataclass(frozen=True, slots=True)
class PollSkip(Anomaly):
    """A consumer continued, between two operations, behind a record that exists."""

    name = "poll-skip"
    says = "a consumer passed over a record between two polls"

    partition: TopicPartition
    before: Operation
    position: int
    operation: Operation
    record: Record
    skipped: tuple[Record, ...]
    """At most a few of them."""
    count: int

    def explain(self) -> str:
        """Return the two positions, and the records between them."""
        shown = ", ".join(f"{r.value!r} at {r.offset}" for r in self.skipped)
        more = f" and {self.count - len(self.skipped)} more" * (self.count > len(self.skipped))
        return (
            f"{self.partition}: {self.before} left off at offset {self.position}, "
            f"{self.operation} goes on with {self.record.value!r} at {self.record.offset}, skipping {shown}{more}"
        )


class InternalPollSkip(PollSkip):
    """A poll, or the polls of a transaction, left out a record."""

    __slots__ = ()
    name = "int-poll-skip"
    says = "a consumer passed over a record within a poll or a transaction"


@dataclass(frozen=True, slots=True)
class NonmonotonicPoll(Anomaly):
    """A consumer went back without a seek or a rebalance."""

    name = "nonmonotonic-poll"
    says = "a consumer went back between two polls"

    partition: TopicPartition
    before: Operation
    position: int
    operation: Operation
    record: Record

    def explain(self) -> str:
        """Return the two positions."""
        return (
            f"{self.partition}: {self.before} left off at offset {self.position}, "
            f"{self.operation} goes back to {self.record.value!r} at {self.record.offset}"
        )


class InternalNonmonotonicPoll(NonmonotonicPoll):
    """A poll, or the polls of a transaction, went back."""

    __slots__ = ()
    name = "int-nonmonotonic-poll"
    says = "a consumer went back within a poll or a transaction"


@dataclass(frozen=True, slots=True)
class SendSkip(Anomaly):
    """Another producer's record lies between two of a producer."""

    name = "send-skip"
    says = "between two records of a producer lies another's"

    first: Write
    offset: int
    second: Write
    second_offset: int
    between: tuple[int, ...]

    def explain(self) -> str:
        """Return the records between."""
        return (
            f"{self.first} stands at {self.offset}, the next, {self.second}, at {self.second_offset}; "
            f"between them {list(self.between)}"
        )


class InternalSendSkip(SendSkip):
    """The records of a transaction are not side by side."""

    __slots__ = ()
    name = "int-send-skip"
    says = "between two records of a transaction lies another's"


@dataclass(frozen=True, slots=True)
class NonmonotonicSend(Anomaly):
    """A producer's records were turned round."""

    name = "nonmonotonic-send"
    says = "records of a producer are not in the order in which it sent them"

    first: Write
    offset: int
    second: Write
    second_offset: int

    def explain(self) -> str:
        """Return the record that was sent first, and the positions of both."""
        return f"{self.first} stands at {self.offset}, but {self.second}, sent later, at {self.second_offset}"


class InternalNonmonotonicSend(NonmonotonicSend):
    """The records of a transaction were turned round."""

    __slots__ = ()
    name = "int-nonmonotonic-send"
    says = "records of a transaction are not in the order in which it sent them"


@dataclass(frozen=True, slots=True)
class Step:
    """An edge of a cycle: `then` depends on `first` in the way of `kind` (ww, wr or rw)."""

    first: Unit
    then: Unit
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class Cycle(Anomaly):
    """Each unit happened before the next, and the last before the first."""

    steps: Sequence[Step]

    def explain(self) -> str:
        """Return the cycle."""
        return "".join(
            f"\n    {step.first} {step.kind}-> {step.then}: {step.why}" for step in self.steps
        )


class WriteCycle(Cycle):
    """Transactions interleave their writes; Kafka does not isolate writes."""

    __slots__ = ()
    name = "G0"
    says = "transactions wrote around each other (a cycle of ww)"


class InformationCycle(Cycle):
    """Write dependencies take part; since G0 is normal, so is this."""

    __slots__ = ()
    name = "G1c"
    says = "information flows in a circle when the order of writes counts too (ww and wr)"


class ReadCycle(Cycle):
    """Each saw the other's records: impossible for isolated reads."""

    __slots__ = ()
    name = "G1c-wr"
    says = "transactions read each other's records (a cycle of wr alone)"


class SingleAntiCycle(Cycle):
    """A transaction missed a record that it depends on; polls are no snapshots."""

    __slots__ = ()
    name = "G-single"
    says = "a cycle with one transaction that did not see what another wrote (one rw)"


class AntiCycle(Cycle):
    """Several missed each other's records."""

    __slots__ = ()
    name = "G2"
    says = "a cycle with several transactions that did not see what others wrote"


ANOMALIES: tuple[type[Anomaly], ...] = (
    LostWrite, VanishedRead, Duplicate, InconsistentOffsets, UnwrittenRead, FailedWriteRead, AbortedRead,
    PrecommittedRead, PollSkip, NonmonotonicPoll, InternalPollSkip, InternalNonmonotonicPoll, NonmonotonicSend,
    InternalNonmonotonicSend, SendSkip, InternalSendSkip, WriteCycle, InformationCycle, ReadCycle, SingleAntiCycle,
    AntiCycle,
)  # fmt: skip
