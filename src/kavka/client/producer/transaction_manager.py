"""A producer's transactions: the shell that leads the dialogues of `kavka.core.transactional_producer`.

A call waits for `max.block.ms`; what it has begun continues in a task, and the same call made again waits for the same
task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kavka.client.cluster import Cluster
from kavka.client.coordinator import run_dialogue
from kavka.client.producer.batch import NO_SEQUENCE, ProducerBatch
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.transaction_channel import TransactionChannel
from kavka.client.producer.transaction_requests import TransactionSettings
from kavka.client.producer.transaction_steps import ProducerCalls, TransactionSteps
from kavka.client.producer.transaction_tasks import TransactionTasks
from kavka.core.group_member.steps import GroupMetadata
from kavka.core.transactional_producer import steps
from kavka.core.transactional_producer.dialogue import (
    TWO_PHASE_REFUSALS,
    Dialogue,
    TransactionDialogues,
)
from kavka.core.transactional_producer.errors import as_abortable
from kavka.core.transactional_producer.state import PreparedTxnState, State, TransactionState
from kavka.errors import KafkaError
from kavka.ids import ProducerEpoch, ProducerId, TopicPartition

log = logging.getLogger(__name__)


class TransactionManager:
    """The transactions of one producer. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        transaction: TransactionState,
        sequences: SequenceNumbers,
        settings: TransactionSettings,
        calls: ProducerCalls,
        wake: Callable[[], None],
    ) -> None:
        """`wake` lets the sender check its batches again."""
        self._cluster = cluster  # for its transaction.version
        self._transaction = transaction
        self._sequences = sequences
        self._settings = settings
        self._calls = calls
        self._wake = wake
        self._dialogues = TransactionDialogues(
            transaction, two_phase_commit=settings.two_phase_commit
        )
        self._tasks = TransactionTasks(
            self._run_guarded, settings.max_block_ms, wake, self.mark_abortable
        )
        self._steps = TransactionSteps(
            TransactionChannel(cluster, settings, sequences),
            sequences,
            calls,
            self._tasks.wait_until_added,
        )

    # Called by the producer's user

    async def init(self, keep_prepared: bool) -> PreparedTxnState | None:
        """Obtain a producer id and epoch, which fences an older producer of the id.

        The transaction that it left open is ended or, with `keep_prepared`, kept, and its state returned.
        """
        await self._tasks.operate(
            "init_transactions",
            self._transaction.begin_init,
            lambda: self._dialogues.init(keep_prepared),
        )
        return self._transaction.prepared

    def resume(self, identity: PreparedTxnState) -> None:
        """Take the producer id and epoch that another process got; nothing is sent."""
        self._transaction.begin_init()
        self._sequences.restart_all(ProducerId(identity.producer_id), ProducerEpoch(identity.epoch))
        self._dialogues.resume(identity)
        self._transaction.initialized()

    @property
    def identity(self) -> PreparedTxnState:
        """The producer id and epoch."""
        return PreparedTxnState(self._sequences.producer_id, self._sequences.epoch)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent."""
        self._tasks.require_no_operation()
        self._transaction.begin(self._cluster.transaction_version)

    async def prepare(self) -> PreparedTxnState | None:
        """Write everything, so that nothing is left but the decision; None when there is nothing to decide."""
        await self._tasks.operate(
            "prepare_transaction", self._begin_prepare, self._dialogues.prepare
        )
        return self._transaction.prepared

    async def complete(self, state: PreparedTxnState | None) -> None:
        """Commit what is prepared if this is its name, else abort it."""
        if not self._tasks.has_operation:
            self._transaction.require_prepared()
        await (self.commit() if state == self._transaction.prepared else self.abort())

    async def commit(self) -> None:
        """Write everything and commit."""
        await self._tasks.operate("commit_transaction", self._begin_commit, self._dialogues.commit)

    async def abort(self) -> None:
        """Drop what was not sent, and abort."""
        await self._tasks.operate("abort_transaction", self._begin_abort, self._dialogues.abort)

    async def send_offsets(self, offsets: steps.Offsets, group: GroupMetadata) -> None:
        """Make offsets of a group part of the transaction, and wait for the responses."""
        self._transaction.require_open()
        if not isinstance(group, GroupMetadata):
            raise TypeError(
                f"group_metadata is what Consumer.group_metadata returns, not {group!r:.80}"
            )
        if not offsets:
            return
        if not await self._tasks.add_and_wait(self._dialogues.send_offsets(offsets, group)):
            late = TimeoutError(f"no answer to the offsets in {self._settings.max_block_ms} ms")
            self.mark_abortable(late)
            raise late
        self._transaction.raise_error()

    async def close(self) -> None:
        """End what is open as an abort, if the coordinator can be reached within `max.block.ms`; stop all tasks."""
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                await self._tasks.wait_for_operation()
                if self._transaction.state in (State.OPEN, State.MUST_ABORT):
                    log.info("open transaction aborted id=%s", self._settings.transactional_id)
                    self._begin_abort()
                    await run_dialogue(self._dialogues.abort(), self._steps.perform)
                elif self._transaction.state is State.PREPARED:
                    log.info("transaction left prepared id=%s", self._settings.transactional_id)
        except (TimeoutError, KafkaError) as error:
            log.warning(
                "transaction left to its timeout id=%s reason=%s",
                self._settings.transactional_id,
                error,
            )

    async def stop(self) -> None:
        """End all tasks."""
        await self._tasks.stop()

    # Called by the rest of the producer

    def mark_abortable(self, error: Exception) -> None:
        """Note that a record of the transaction, or its offsets, cannot be sent."""
        self._fail(as_abortable(error), must_bump=False)

    def on_batch_failed(self, batch: ProducerBatch, error: Exception) -> None:
        """Note that a batch is given up; with sequences, the broker waits for them in this epoch."""
        self._fail(as_abortable(error), must_bump=batch.base_sequence != NO_SEQUENCE)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions with records to the transaction; called in each iteration of the sender."""
        self._transaction.add_wanted(partitions)
        wanted = self._transaction.next_to_add()
        if wanted:
            self._tasks.add(self._dialogues.add_partitions(wanted))

    def _fail(self, error: KafkaError, must_bump: bool) -> None:
        before = self._transaction.state
        self._transaction.must_abort(error, must_bump)
        if self._transaction.state is not before:
            # A refusal of two-phase commit is an answer to a question, and the caller has it, too.
            asked = self._settings.two_phase_commit and error.code in TWO_PHASE_REFUSALS
            log.log(
                logging.INFO if asked else logging.WARNING,
                "two-phase commit refused id=%s reason=%s"
                if asked
                else "transaction failed id=%s reason=%s",
                self._settings.transactional_id,
                error,
            )
            self._wake()  # so that the sender drops what waits

    async def _run_guarded(self, dialogue: Dialogue) -> None:
        try:
            await run_dialogue(dialogue, self._steps.perform)
        except KafkaError as error:
            self._fail(error, must_bump=False)
            raise

    def _begin_prepare(self) -> None:
        self._transaction.begin_prepare()
        self._calls.close_batches()

    def _begin_commit(self) -> None:
        self._transaction.begin_commit()
        self._calls.close_batches()

    def _begin_abort(self) -> None:
        self._transaction.begin_abort()
        self._calls.close_batches()
