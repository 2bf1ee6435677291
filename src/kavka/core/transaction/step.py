"""The results of one event while it is being handled."""

from __future__ import annotations

from kavka.core.machine import Decision, SendReply, Token
from kavka.core.transaction.events import (
    Effect,
    End,
    InitProducer,
    NeedProducerId,
    Reply,
    SendMarkers,
    TransactionDecision,
    VerifyReply,
)
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.settings import TransactionSettings
from kavka.core.transaction.transaction import Pending, Transaction
from kavka.errors import ErrorCode
from kavka.values import field, mutable


@mutable
class Step:
    """Collects the records and effects of one event."""

    now_ms: int
    settings: TransactionSettings
    records: list[TransactionRecord] = field(factory=list)
    effects: list[Effect] = field(factory=list)
    cancelled: bool = False
    """True if the reply depends on stored state; a malformed request is refused without it."""

    def reply(self, token: Token, reply: Reply) -> None:
        """Reply to a request, once the records of the step are committed."""
        self.effects.append(SendReply(token, reply))

    def store(
        self,
        transaction: Transaction,
        value: StoredTransaction,
        last_producer_epoch: int | None = None,
    ) -> None:
        """Write a new value of the transaction, which is busy until it is committed."""
        stored = transaction.propose(value, last_producer_epoch)
        if transaction.owes_completion:
            self.store_completion(transaction)
        self.records.append(TransactionRecord(transaction.transactional_id, stored))

    def store_completion(self, transaction: Transaction) -> None:
        """Write the end that a transaction owes."""
        assert transaction.owes_completion
        transaction.is_completing = True
        self.records.append(TransactionRecord(transaction.transactional_id, transaction.completion))

    def append_tombstone(self, transaction: Transaction) -> None:
        """Write the end of the transactional id."""
        assert transaction.pending is None
        assert transaction.completion is None
        last, previous = transaction.last_producer_epoch, transaction.previous_producer_id
        transaction.pending = Pending(None, last, previous)
        self.records.append(TransactionRecord(transaction.transactional_id, None))

    def wait_for_producer_id(self, transaction: Transaction, event: InitProducer | End) -> None:
        """Request a new producer id, with which the request then continues."""
        transaction.waiting = event
        self.effects.append(NeedProducerId(transaction.transactional_id))

    def send_markers(self, transactional_id: str, value: StoredTransaction) -> None:
        """Send the markers of a prepared transaction, once the preparation is committed."""
        if value.partitions:
            self.effects.append(
                SendMarkers(
                    transactional_id,
                    value.producer_id,
                    value.producer_epoch,
                    value.state is TransactionState.PREPARE_COMMIT,
                    tuple(sorted(value.partitions)),
                    value.client_transaction_version,
                )
            )

    def decision(self) -> TransactionDecision:
        """Return all that was collected.

        A reply that its client takes for the last word, and that rests on no record, must not come from a shard of
        the past: there a commit may be "done already" that is of the transaction before, or a producer seem fenced.
        """
        is_bare = self.cancelled and not self.records
        must_confirm = is_bare and any(map(_is_final_reply, self.effects))
        return Decision(tuple(self.records), tuple(self.effects), must_confirm)


def _is_final_reply(effect: Effect) -> bool:
    if not isinstance(effect, SendReply):
        return False
    if isinstance(effect.reply, VerifyReply):
        codes = [code for _partition, code in effect.reply.partitions]
        return any(code is not ErrorCode.NONE and not code.retriable for code in codes)
    return not effect.reply.error_code.retriable
