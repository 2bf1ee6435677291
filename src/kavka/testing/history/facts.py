"""Facts derived from a history: writes and their outcomes, and the reads of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kavka.ids import TopicPartition
from kavka.testing.history.operations import (
    Abort,
    Begin,
    Commit,
    MalformedHistory,
    Operation,
    Poll,
    Record,
    Scan,
    Send,
    Type,
)


class Outcome(StrEnum):
    """The outcome of a write or of a transaction."""

    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Transaction:
    """The operations of a process from a begin to a commit or an abort."""

    began: Operation
    operations: list[Operation] = field(default_factory=list)
    commit: Operation | None = None
    """The first commit that was asked for; without one nothing of the transaction may ever be seen."""
    end: Operation | None = None
    outcome: Outcome = Outcome.FAILED

    def __str__(self) -> str:
        """Name it in an explanation."""
        return f"{self.began.process}'s transaction {self.began.number} ({self.outcome})"


Unit = Operation | Transaction
"""An atomic unit: a transaction, or an operation outside of transactions."""


@dataclass(slots=True, eq=False)
class Write:
    """A send, the transaction that it belongs to, and what became of it."""

    operation: Operation
    send: Send
    transaction: Transaction | None
    outcome: Outcome

    @property
    def unit(self) -> Unit:
        """The transaction if there is one, else the send."""
        return self.transaction or self.operation

    def __str__(self) -> str:
        """Name it in an explanation."""
        offset = "" if self.send.offset is None else f" offset {self.send.offset}"
        inside = "" if self.transaction is None else f" of {self.transaction}"
        return f"{self.send.value!r} to {self.send.partition}{offset} by {self.operation}{inside}"


@dataclass(frozen=True, slots=True)
class Read:
    """A record and the poll or scan that returned it."""

    operation: Operation
    record: Record

    def __str__(self) -> str:
        """Name it in an explanation."""
        record = self.record
        return f"{record.value!r} at {record.partition} offset {record.offset} by {self.operation}"


@dataclass(slots=True)
class Order:
    """The records of a partition that surely exist and may be seen, by offset; gaps are no finding."""

    offsets: list[int]
    values: dict[int, str]

    def between(self, first: int, end: int) -> list[int]:
        """Return the known offsets from `first` up to and without `end`."""
        return self.offsets[bisect_left(self.offsets, first) : bisect_left(self.offsets, end)]

    def after(self, offset: int) -> int | None:
        """Return the next known offset."""
        index = bisect_right(self.offsets, offset)
        return self.offsets[index] if index < len(self.offsets) else None


class Facts:
    """The facts of a history. Raise MalformedHistory when a value is sent twice or transactions are nested."""

    def __init__(self, operations: list[Operation], *, read_committed: bool = True) -> None:
        """`read_committed`: whether polls see committed transactions only, so that seeing one proves it."""
        self.operations = operations
        self.transactions: list[Transaction] = []
        self.writes: dict[str, Write] = {}
        """By value."""
        self.reads: dict[TopicPartition, dict[int, dict[str, Read]]] = {}
        """The first read of each value at each offset of each partition."""
        self.places: dict[str, dict[tuple[TopicPartition, int], Read]] = {}
        """The first read of each value."""
        self.scans: dict[TopicPartition, Operation] = {}
        """The last whole scan of each partition."""
        self.unit_of: dict[int, Transaction] = {}
        """The transaction of an operation by the operation's number."""
        self._collect_transactions()
        for operation in operations:
            self._collect(operation)
        if read_committed:
            self._confirm_by_reads()
        self._decide_outcomes()
        self._acknowledged: dict[TopicPartition, list[Write]] = {}
        for write in self.writes.values():
            if write.outcome is Outcome.COMMITTED:
                self._acknowledged.setdefault(write.send.partition, []).append(write)
        self.orders = {
            topic_partition: self._order(topic_partition) for topic_partition in self._partitions()
        }

    def start_of(self, topic_partition: TopicPartition) -> int:
        """Return the first offset that was not deleted by retention, as the last scan saw it."""
        scan = self.scans.get(topic_partition)
        return scan.action.start if scan is not None and isinstance(scan.action, Scan) else 0

    def unit(self, operation: Operation) -> Unit:
        """Return what happens as one with an operation."""
        return self.unit_of.get(operation.number, operation)

    def all_reads(self) -> Iterable[Read]:
        """Yield the first read of each value at each place, partition by partition in the order of offsets."""
        for offsets in self.reads.values():
            for offset in sorted(offsets):
                yield from offsets[offset].values()

    def _collect_transactions(self) -> None:
        """Follow each process in the order of invocations: that is how its operations are meant."""
        current: dict[str, Transaction] = {}
        for operation in self.operations:
            process = operation.process
            transaction = current.get(process)
            match operation.action:
                case Begin() if operation.outcome is Type.FAIL:
                    continue
                case Begin() if transaction is not None and transaction.end is None:
                    raise MalformedHistory(f"{operation} is inside of {transaction}")
                case Begin():
                    current[process] = Transaction(operation)
                    self.transactions.append(current[process])
                case Commit() | Abort() if transaction is None:
                    raise MalformedHistory(f"{operation} ends no transaction")
                case Commit() | Abort():
                    assert transaction is not None
                    self._end(transaction, operation)
                    if operation.outcome is not Type.INFO:
                        del current[process]
                case Send() | Poll() if transaction is not None and transaction.commit is None:
                    transaction.operations.append(operation)
                    self.unit_of[operation.number] = transaction
                case Send() | Poll() if transaction is not None:
                    raise MalformedHistory(f"{operation} follows the commit of {transaction}")
                case _:
                    pass

    def _end(self, transaction: Transaction, operation: Operation) -> None:
        """Record an end: a commit decides; an abort after a commit of unknown outcome leaves it unknown."""
        transaction.end = operation
        if not isinstance(operation.action, Commit):
            return
        transaction.commit = transaction.commit or operation
        outcomes = {Type.OK: Outcome.COMMITTED, Type.FAIL: Outcome.FAILED}
        transaction.outcome = outcomes.get(operation.outcome, Outcome.UNKNOWN)

    def _collect(self, operation: Operation) -> None:
        match operation.action:
            case Send() as send:
                if send.value in self.writes:
                    other = self.writes[send.value].operation
                    raise MalformedHistory(f"{send.value!r} is sent twice: {other}, {operation}")
                transaction = self.unit_of.get(operation.number)
                self.writes[send.value] = Write(operation, send, transaction, Outcome.UNKNOWN)
            case Poll(records):
                self._collect_reads(operation, records)
            case Scan(partition, _, _, records):
                self._collect_reads(operation, records)
                if operation.outcome is Type.OK:
                    self.scans[partition] = operation
            case _:
                pass

    def _collect_reads(self, operation: Operation, records: tuple[Record, ...]) -> None:
        """Collect the first read of each record, by completion."""
        for record in records:
            read = Read(operation, record)
            at_offset = self.reads.setdefault(record.partition, {}).setdefault(record.offset, {})
            sends = at_offset.get(record.value)
            if sends is None or ended(operation) < ended(sends.operation):
                at_offset[record.value] = read
                position = record.partition, record.offset
                self.places.setdefault(record.value, {})[position] = read

    def _confirm_by_reads(self) -> None:
        """Count a transaction of unknown outcome as committed when any of its records was read."""
        for write in self.writes.values():
            transaction = write.transaction
            if (
                transaction is not None
                and transaction.outcome is Outcome.UNKNOWN
                and write.send.value in self.places
            ):
                transaction.outcome = Outcome.COMMITTED

    def _decide_outcomes(self) -> None:
        for write in self.writes.values():
            outcome, transaction = write.operation.outcome, write.transaction
            if outcome is Type.FAIL or (transaction and transaction.outcome is Outcome.FAILED):
                write.outcome = Outcome.FAILED
            elif outcome is Type.OK and (
                not transaction or transaction.outcome is Outcome.COMMITTED
            ):
                write.outcome = Outcome.COMMITTED

    def _partitions(self) -> list[TopicPartition]:
        written = {write.send.partition for write in self.writes.values()}
        return sorted(written | self.reads.keys() | self.scans.keys())

    def _order(self, topic_partition: TopicPartition) -> Order:
        values: dict[int, str] = {}
        for offset, read in self.reads.get(topic_partition, {}).items():
            for value in read:
                write = self.writes.get(value)
                if write is not None and write.outcome is not Outcome.FAILED:
                    values.setdefault(offset, value)
        for write in self.acknowledged(topic_partition):
            if write.send.offset is not None:
                values.setdefault(write.send.offset, write.send.value)
        return Order(sorted(values), values)

    def acknowledged(self, topic_partition: TopicPartition) -> list[Write]:
        """Return the writes to a partition that were acknowledged, in the order of their invocations."""
        return self._acknowledged.get(topic_partition, [])


def ended(operation: Operation) -> int:
    """Return the place in the history where an operation surely was over; of an open one, where it began."""
    return operation.invoked if operation.completed is None else operation.completed
