"""Two-phase commit (KIP-939): what is prepared waits for its decision, however long that takes, and ends by it."""

from __future__ import annotations

from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.ids import TopicPartition
from kavka.simulation.events import (
    CommittedRead,
    Decided,
    Event,
    Prepared,
    Resumed,
    SentInTransaction,
    TransactionEnded,
    TransactionsAudited,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class PreparedTransactionsEndAsDecided(Invariant):
    """Only the decision ends a prepared transaction: no timeout, no other producer, no failover.

    A producer that takes the id over is given it, until it is decided; of one that is to be committed all records
    can be read once each, not before the decision, and none of another.
    """

    says = "a prepared transaction ends as it was decided"

    def __init__(self) -> None:
        """Begin without transactions."""
        self._sent: dict[str, list[tuple[TopicPartition, bytes]]] = {}
        self._names: dict[bytes, str] = {}
        self._states: dict[str, tuple[str, PreparedTxnState]] = {}
        self._outcomes: dict[tuple[str, PreparedTxnState], bool] = {}

    def observe(self, event: Event) -> None:
        """Compare ends, takeovers and what is read with the decisions."""
        match event:
            case SentInTransaction(transaction, _, _, partition, value):
                self._sent.setdefault(transaction, []).append((partition, value))
                self._names[value] = transaction
            case Prepared(transaction, transactional_id, state):
                self._states[transaction] = (transactional_id, state)
            case Decided(transactional_id, state, committed):
                self._outcomes[transactional_id, state] = committed
            case Resumed(transactional_id, identity, found):
                self._check_not_lost(transactional_id, identity, found)
            case TransactionEnded(transaction, committed) if transaction in self._states:
                if self._outcome(transaction) is not committed:
                    raise Violation(
                        f"{transaction} has ended, {committed=}: {self._outcome_text(transaction)}"
                    )
            case CommittedRead(reader, partition, offset, value):
                transaction = self._names.get(value, "")
                if transaction in self._states and not self._outcome(transaction):
                    where = f"{reader} read {value[:40]!r} at {partition} offset {offset}"
                    raise Violation(f"{where}: {self._outcome_text(transaction)}")
            case TransactionsAudited(records, _):
                for transaction in self._states:
                    self._audit(transaction, records)
            case _:
                pass

    def _check_not_lost(
        self, transactional_id: str, identity: PreparedTxnState, found: PreparedTxnState | None
    ) -> None:
        """Judge what a producer was given; what later ones have prepared meanwhile is not for it to see."""
        for transaction, (of, state) in self._states.items():
            is_older = state.producer_id == identity.producer_id and state.epoch < identity.epoch
            is_lost = of == transactional_id and is_older and state != found
            if is_lost and self._outcome(transaction) is None:
                given = f"{identity} of {of} was given {found}, but {state} is prepared"
                raise Violation(f"{given}: {self._outcome_text(transaction)}")

    def _audit(self, transaction: str, records: dict[TopicPartition, tuple[bytes, ...]]) -> None:
        outcome = self._outcome(transaction)
        counts = [
            records[topic_partition].count(value)
            for topic_partition, value in self._sent[transaction]
        ]
        if outcome is None or set(counts) != {int(outcome)}:
            raise Violation(
                f"of the records of {transaction}, {counts}: {self._outcome_text(transaction)}"
            )

    def _outcome(self, transaction: str) -> bool | None:
        """Return the decision: to commit or not; None before it."""
        return self._outcomes.get(self._states[transaction])

    def _outcome_text(self, transaction: str) -> str:
        outcome = self._outcome(transaction)
        if outcome is None:
            return f"there is no decision about {transaction}"
        return f"{transaction} was decided to be {'committed' if outcome else 'aborted'}"
