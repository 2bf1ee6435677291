"""Transactions (KIP-98): all records of one or none, with its offsets, only by the holder of the transactional id."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import (
    CommitRequested,
    CommittedRead,
    Event,
    PositionSeen,
    Prepared,
    ProducerInitialized,
    SentInTransaction,
    TransactionEnded,
    TransactionsAudited,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class TransactionsAreAllOrNothing(Invariant):
    """All records of a committed transaction can be read, once each; of one with an unknown outcome all or none."""

    says = "of a transaction all records can be read, or none"

    def __init__(self) -> None:
        """Begin without transactions."""
        self._sent: dict[str, list[tuple[TopicPartition, bytes]]] = {}
        self._committed: set[str] = set()

    def observe(self, event: Event) -> None:
        """Remember what was sent; compare it with the audit."""
        match event:
            case SentInTransaction(transaction, _, _, partition, value):
                self._sent.setdefault(transaction, []).append((partition, value))
            case TransactionEnded(transaction, committed=True):
                self._committed.add(transaction)
            case TransactionsAudited(records, _):
                for transaction, sent in self._sent.items():
                    counts = [records[partition].count(value) for partition, value in sent]
                    if max(counts) > 1:
                        raise Violation(f"{transaction} can be read twice: {counts}")
                    if min(counts) != max(counts) or (
                        transaction in self._committed and not counts[0]
                    ):
                        state = "committed" if transaction in self._committed else "not"
                        raise Violation(f"{transaction}, {state}: of its records, {counts}")
            case _:
                pass


class OnlyCommittedRecordsAreRead(Invariant):
    """A read_committed reader never gets a record before its commit was requested, or of an aborted transaction.

    A reader goes forward, offset by offset.
    """

    says = "read_committed shows committed transactions only"

    def __init__(self) -> None:
        """Begin without transactions."""
        self._transaction: dict[bytes, str] = {}
        self._asked: set[str] = set()
        self._aborted: set[str] = set()
        self._read: dict[str, str] = {}
        self._offsets: dict[tuple[str, TopicPartition], int] = {}

    def observe(self, event: Event) -> None:
        """Compare each record that is read with its transaction."""
        match event:
            case SentInTransaction(transaction, _, _, _, value):
                self._transaction[value] = transaction
            case CommitRequested(transaction, _, _):
                self._asked.add(transaction)
            case TransactionEnded(transaction, committed=False):
                self._aborted.add(transaction)
                if transaction in self._read:
                    raise Violation(f"{transaction} is aborted: {self._read[transaction]}")
            case CommittedRead(reader, partition, offset, value):
                if offset <= self._offsets.get((reader, partition), -1):
                    raise Violation(f"{reader} went back to {partition} offset {offset}")
                self._offsets[reader, partition] = offset
                self._judge(value, f"{reader} read {value[:40]!r} at {partition} offset {offset}")
            case TransactionsAudited(records, _):
                for partition, values in records.items():
                    for value in values:
                        self._judge(value, f"{partition} shows {value[:40]!r}")
            case _:
                pass

    def _judge(self, value: bytes, what: str) -> None:
        transaction = self._transaction.get(value)
        if transaction is None:
            raise Violation(f"{what}, which was not sent")
        if transaction in self._aborted:
            raise Violation(f"{what}, but {transaction} was aborted")
        if transaction not in self._asked:
            raise Violation(f"{what}, but the commit of {transaction} had not been requested")
        self._read.setdefault(transaction, what)


class FencedProducersCommitNothing(Invariant):
    """A fenced producer commits nothing more: neither the open transaction, nor a later one.

    Of two producers with one producer id the one with the higher epoch is the later one (KIP-360).
    """

    says = "a producer that was fenced commits nothing"

    def __init__(self) -> None:
        """Begin without producers."""
        self._holders: dict[tuple[str, int], tuple[int, str]] = {}
        self._epochs: dict[str, tuple[int, int]] = {}
        self._producers: dict[str, tuple[str, str]] = {}
        self._asked: set[str] = set()
        self._fenced_transactions: dict[str, str] = {}
        self._values: dict[bytes, str] = {}

    def observe(self, event: Event) -> None:
        """Note takeovers of ids; no transaction that a takeover found open may be committed."""
        match event:
            case ProducerInitialized(transactional_id, producer, producer_id, epoch):
                self._epochs[producer] = (producer_id, epoch)
                key = (transactional_id, producer_id)
                if epoch > self._holders.get(key, (-1, ""))[0]:
                    self._holders[key] = (epoch, producer)
                for transaction in self._producers:
                    self._check_transaction(transaction)
            case SentInTransaction(transaction, transactional_id, producer, _, value):
                self._producers[transaction] = (transactional_id, producer)
                self._values[value] = transaction
            case CommitRequested(transaction, _, _) | Prepared(transaction, _, _):
                # A producer that takes the id over is given the prepared transaction, and its decision with it.
                self._check_transaction(transaction)
                self._asked.add(transaction)
            case TransactionEnded(transaction, committed=True) if (
                transaction in self._fenced_transactions
            ):
                raise Violation(
                    f"{transaction} is committed, but {self._fenced_transactions[transaction]}"
                )
            case TransactionsAudited(records, _):
                for partition, values in records.items():
                    for value in values:
                        transaction = self._values.get(value, "")
                        if transaction in self._fenced_transactions:
                            raise Violation(
                                f"{partition} shows {value[:40]!r}, but {self._fenced_transactions[transaction]}"
                            )
            case _:
                pass

    def _check_transaction(self, transaction: str) -> None:
        """Mark a transaction as fenced when its producer was fenced before the commit was requested."""
        if transaction in self._asked:
            return
        transactional_id, producer = self._producers[transaction]
        producer_id, epoch = self._epochs[producer]
        newest, holder = self._holders[transactional_id, producer_id]
        if epoch < newest:
            self._fenced_transactions[transaction] = (
                f"{holder} had taken {transactional_id} from {producer}"
            )


class OffsetsMoveWithTransactions(Invariant):
    """A group's offset is that of its last committed transaction, never that of one that is open or aborted."""

    says = "offsets move with the transactions that they were sent in"

    def __init__(self) -> None:
        """Begin without groups."""
        self._asked: dict[str, dict[str, int]] = {}
        self._committed: dict[str, int] = {}
        self._aborted: set[str] = set()
        self._groups: dict[str, str] = {}
        self._values: dict[bytes, str] = {}

    def observe(self, event: Event) -> None:
        """Compare a group's returned offset with the outcome of its transactions."""
        match event:
            case SentInTransaction(transaction, _, _, _, value):
                self._values[value] = transaction
            case CommitRequested(transaction, group, offset):
                self._asked.setdefault(group, {})[transaction] = offset
                self._groups[transaction] = group
            case TransactionEnded(transaction, committed=True):
                group = self._groups[transaction]
                offset = self._asked[group][transaction]
                self._committed[group] = max(offset, self._committed.get(group, 0))
            case TransactionEnded(transaction, committed=False):
                self._aborted.add(transaction)
            case PositionSeen(group, offset):
                self._judge(group, offset)
            case TransactionsAudited(records, offsets):
                shown = {
                    self._values.get(value, "") for found in records.values() for value in found
                }
                for group, offset in offsets.items():
                    self._judge(group, offset)
                    asked = self._asked.get(group, {})
                    last = max((at for each, at in asked.items() if each in shown), default=0)
                    if offset != last:
                        raise Violation(
                            f"{group} is at {offset}, but its last committed transaction at {last}"
                        )
            case _:
                pass

    def _judge(self, group: str, offset: int) -> None:
        if offset < self._committed.get(group, 0):
            raise Violation(f"{group} had come to {self._committed[group]}, now it is at {offset}")
        asked = self._asked.get(group, {})
        possible = {at for each, at in asked.items() if each not in self._aborted}
        if offset and offset not in possible:
            raise Violation(f"{group} is at {offset}, where no committed transaction left it")


class EachInputIsProcessedOnce(Invariant):
    """Exactly once, end to end: for each input below a group's offset there is one result, and none above."""

    says = "each input has one committed result"

    def observe(self, event: Event) -> None:
        """Count the results of each transactional id."""
        if not isinstance(event, TransactionsAudited):
            return
        results: dict[str, list[int]] = {group: [] for group in event.offsets}
        for values in event.records.values():
            for value in values:
                transactional_id, number = value.decode().split("/")[:2]
                results[f"group-of-{transactional_id}"].append(int(number))
        for group, numbers in results.items():
            if sorted(numbers) != list(range(event.offsets[group])):
                raise Violation(
                    f"{group} is at {event.offsets[group]}, the results are of {sorted(numbers)}"
                )
