"""Failures of records: each goes to the record's future or callback, to its transaction, or to the next flush."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kavka.client.producer.batch import ProducerBatch
from kavka.client.producer.pending_flushes import PendingFlushes
from kavka.client.producer.transaction_manager import TransactionManager
from kavka.core.transactional_producer.state import TransactionState
from kavka.errors import KafkaError

log = logging.getLogger(__name__)


class RecordFailures:
    """Passes each failure on to what raises it. A transaction with a missing record cannot be committed."""

    def __init__(self, flushes: PendingFlushes, transaction: TransactionState | None) -> None:
        """Without `transaction` the producer has no `transactional.id`, and the next flush raises."""
        self._flushes = flushes
        self._transaction = transaction
        self.transaction_manager: TransactionManager | None = None
        """Set while the producer is assembled, where it is a transactional one."""

    def fail(self, error: Exception, *, is_watched: bool = False) -> None:
        """Take the failure of a record that is in no batch.

        The transaction's commit raises it, watched or not. Outside of a transaction the next flush raises it, unless
        a future or callback has it (`is_watched`).
        """
        if self.transaction_manager is None or (
            self._transaction and self._transaction.refuses_records
        ):
            if not is_watched:
                self._flushes.fail(error)
        else:
            self.transaction_manager.mark_abortable(error)

    def fail_transaction(self, error: Exception) -> None:
        """Fail the transaction of a record that never came into a batch; without transactions, do nothing."""
        if self.transaction_manager is not None:
            self.transaction_manager.mark_abortable(error)

    @contextmanager
    def failing_transaction(self) -> Iterator[None]:
        """Fail the transaction when a call raises: its caller may ignore the error, but records are missing."""
        try:
            yield
        except (KafkaError, OSError) as error:
            self.fail_transaction(error)
            raise

    def on_batch_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """Take the failure of a batch, whose futures and callbacks have had it."""
        if self.transaction_manager is not None:
            self.transaction_manager.on_batch_failed(batch, error)
        elif not batch.has_watchers:
            log.error(
                "records not sent partition=%s records=%d reason=%s",
                batch.topic_partition,
                batch.count,
                error,
            )
            self.fail(error)

    def raise_first(self, *, is_open: bool) -> None:
        """Raise, once, the first failure without a future or callback; of an open producer, why it has to abort."""
        if self._transaction is not None and is_open:
            self._transaction.raise_error()
        self._flushes.raise_failure()
