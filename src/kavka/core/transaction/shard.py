"""The transaction machine of one shard: events come in, decisions go out, records are remembered.

A shard begins loading: `apply` takes every record of the partition, then `loaded` makes the transactions live: markers
of those that were being completed are sent again. Meanwhile requests are refused with COORDINATOR_LOAD_IN_PROGRESS.
When the partition moves away the shell calls `resign` and drops the machine.

Hard state: `value` of each transactional id, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kavka.core.machine import SendReply
from kavka.core.transaction import describe
from kavka.core.transaction.end import abort_with_next_epoch, complete, end, owe_completion
from kavka.core.transaction.events import (
    AddPartitions,
    AddPartitionsReply,
    DescribedTransaction,
    End,
    EndReply,
    Event,
    InitProducer,
    InitProducerReply,
    ListedTransaction,
    MarkersWritten,
    ProducerIdGiven,
    ProducerIdRefused,
    Reply,
    Request,
    TimedOut,
    TransactionDecision,
    Verify,
    VerifyReply,
)
from kavka.core.transaction.init import init_producer, refusal
from kavka.core.transaction.partitions import add_partitions, refused_verify, takes_part, verify
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.settings import (
    COMPLETION_DELAY_MS,
    COMPLETION_RETRY_MS,
    TransactionSettings,
)
from kavka.core.transaction.step import Step
from kavka.core.transaction.timers import AT_ONCE_MS, Timers
from kavka.core.transaction.transaction import Transaction
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

# What a refused append means to a client (Kafka's TransactionStateManager).
_UNAVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class TransactionShard:
    """The coordinator of the transactional ids of one partition of `__transaction_state`; a `core.machine.Machine`."""

    def __init__(self, settings: TransactionSettings) -> None:
        """Begin loading, knowing nothing."""
        self.settings = settings  # replaced by the owner when a dynamic setting changes
        self.is_loading = True
        self._transactions: dict[str, Transaction] = {}
        self._timers = Timers()

    # The contract

    def handle(self, event: Event, now_ms: int) -> TransactionDecision:
        """Decide about one event."""
        step = Step(now_ms, self.settings)
        match event:
            case InitProducer():
                self._init_producer(event, step)
            case ProducerIdGiven():
                self._resume_init(event, step)
            case ProducerIdRefused():
                self._fail_init(event, step)
            case MarkersWritten():
                self._markers_written(event, step)
            case _ if self.is_loading:
                step.reply(event.token, _refused(event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            case AddPartitions():
                step.cancelled = True
                add_partitions(self._transactions.get(event.transactional_id), event, step)
            case Verify():
                # It is asked before the first batch in each partition, so that a record each would cost too much: only
                # refusals are confirmed. Of what is allowed, the partition's leader fences older epochs by itself.
                step.cancelled = True
                found = self._transactions.get(event.transactional_id)
                step.reply(event.token, verify(found, event))
            case End():
                step.cancelled = True
                end(self._transactions.get(event.transactional_id), event, step)
        return step.decision()

    def apply(self, record: TransactionRecord) -> None:
        """Remember a record of the log."""
        if record.value is None:
            self._transactions.pop(record.transactional_id, None)
            return
        transaction = self._find_or_make(record.transactional_id)
        before = transaction.value
        if transaction.completion is not None:
            self._timers.settle(transaction.transactional_id)
        transaction.apply(record.value)
        if not self.is_loading:
            self._schedule_timers(transaction, before, record.value)

    def failed(
        self, decision: TransactionDecision, error: ErrorCode, now_ms: int
    ) -> TransactionDecision:
        """Take back what was waiting for the refused records, and answer the waiting requests."""
        step = Step(now_ms, self.settings)
        for record in decision.records:
            transaction = self._transactions.get(record.transactional_id)
            if transaction is None:
                continue
            transaction.pending = None
            if record.value is not None and record.value is transaction.completion:
                transaction.is_completing = False
                self._timers.complete_at(transaction, now_ms + COMPLETION_RETRY_MS)
            elif transaction.value is None:
                del self._transactions[record.transactional_id]
            elif transaction.is_complete:
                self._timers.complete_at(transaction, now_ms + COMPLETION_RETRY_MS)
            elif transaction.value.state is TransactionState.ONGOING:
                self._timers.time_out(transaction.transactional_id, transaction.value)
        for effect in decision.effects:
            # Markers do not leave, since the outcome is not stored; a producer id is asked for without a record.
            if isinstance(effect, SendReply):
                step.reply(effect.token, _refused_reply(effect.reply, _client_error(error)))
        return step.decision()

    def tick(self, now_ms: int) -> TransactionDecision:
        """Handle what is due for one transactional id."""
        step = Step(now_ms, self.settings)
        ended = self._timers.next_completion(now_ms)
        if ended is not None:
            self._complete(ended, step)
            return step.decision()
        owed = self.write_owed(now_ms, now_ms)
        if owed:
            return owed
        timed_out = self._timers.next_timed_out(self._transactions, now_ms, self.settings)
        if timed_out is not None:
            assert timed_out.value is not None
            abort_with_next_epoch(timed_out, timed_out.value, step)
            step.effects.append(_timed_out(timed_out.transactional_id, timed_out.value, now_ms))
            return step.decision()
        for expired in self._timers.expired(self._transactions, now_ms, self.settings):
            step.append_tombstone(expired)
        return step.decision()

    def write_owed(self, now_ms: int, due_ms: int | None = None) -> TransactionDecision:
        """Write ends that are owed, of those that are due by then, or of all; as many as go into one batch.

        Return nothing when none is left.
        """
        step = Step(now_ms, self.settings)
        while not step.records and (owed := self._timers.take_owed(due_ms)):
            for transactional_id in owed:
                self._complete(transactional_id, step)
        return step.decision()

    def deadline_ms(self) -> int | None:
        """Return when the next transaction is due, or the next check for expired ids."""
        return self._timers.deadline_ms()

    @property
    def is_due_earlier(self) -> bool:
        """Return whether `deadline_ms` may be before what it was when it was asked for last."""
        return self._timers.is_earlier

    # Life of the shard

    def loaded(self, now_ms: int) -> TransactionDecision:
        """Begin to serve: every record of the partition has been applied."""
        assert self.is_loading, "loaded once"
        self._timers.start(now_ms, self.settings)
        step = Step(now_ms, self.settings)
        for transaction in self._transactions.values():
            assert transaction.value is not None
            self._schedule_timers(transaction, None, transaction.value)
            if transaction.value.state.is_prepared:
                step.send_markers(transaction.transactional_id, transaction.value)
        self.is_loading = False
        return step.decision()

    def resign(self, now_ms: int) -> TransactionDecision:
        """Reply to all waiting requests with NOT_COORDINATOR; the machine is of no use afterwards."""
        step = Step(now_ms, self.settings)
        for transaction in self._transactions.values():
            if transaction.waiting is not None:
                waiting, transaction.waiting = transaction.waiting, None
                step.reply(waiting.token, _refused(waiting, ErrorCode.NOT_COORDINATOR))
        self._transactions.clear()
        self._timers = Timers()
        self.is_loading = True
        return step.decision()

    # Reads that need no decision

    def takes_part(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
    ) -> bool:
        """Return whether the reply to `Verify` would be NONE, which needs no confirmation."""
        transaction = self._transactions.get(transactional_id)
        return not self.is_loading and takes_part(
            transaction, producer_id, producer_epoch, topic_partition
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return one id's description, or why not."""
        if self.is_loading and transactional_id:
            return DescribedTransaction(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, transactional_id)
        return describe.described(transactional_id, self._transactions.get(transactional_id))

    def list(
        self,
        now_ms: int,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
    ) -> list[ListedTransaction] | ErrorCode:
        """Return the shard's ids that pass the filters. Names of states are those of `describe.STATE_NAMES`."""
        if self.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        rows = (
            describe.listed(one)
            for one in self._transactions.values()
            if describe.is_wanted(one, states, producer_ids, longer_than_ms, now_ms)
        )
        return [row for row in rows if row is not None]

    def count(self) -> tuple[Counter[TransactionState], int | None]:
        """Return how many ids are in each state, and the earliest start of an open transaction, in ms since 1970."""
        latest = (one.latest for one in self._transactions.values())
        stored = [value for value in latest if value is not None]
        starts = (value.start_ms for value in stored if value.state.is_open)
        return Counter(value.state for value in stored), min(starts, default=None)

    def durable(self) -> dict[str, StoredTransaction]:
        """Return the hard state: what any replay of the same records must give."""
        return {
            one: transaction.value
            for one, transaction in sorted(self._transactions.items())
            if transaction.value is not None
        }

    def check(self) -> None:
        """Assert the invariants of all transactional ids."""
        for transactional_id, transaction in self._transactions.items():
            assert transaction.transactional_id == transactional_id
            transaction.check()

    # Events

    def _init_producer(self, event: InitProducer, step: Step) -> None:
        error = refusal(event, self.settings)
        if error is ErrorCode.NONE and self.is_loading:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error is not ErrorCode.NONE:
            step.reply(event.token, InitProducerReply(error))
            return
        step.cancelled = True
        init_producer(self._find_or_make(event.transactional_id), event, step)

    def _resume_init(self, event: ProducerIdGiven, step: Step) -> None:
        transaction, waiting = self._remove_waiting(event.transactional_id)
        step.cancelled = True
        match waiting:
            case InitProducer():
                assert transaction is not None
                init_producer(transaction, waiting, step, event.producer_id)
            case End():
                end(transaction, waiting, step, event.producer_id)

    def _fail_init(self, event: ProducerIdRefused, step: Step) -> None:
        transaction, waiting = self._remove_waiting(event.transactional_id)
        if waiting is not None:
            step.reply(waiting.token, _refused(waiting, event.error))
        if transaction is not None and transaction.value is None and not transaction.is_busy:
            del self._transactions[event.transactional_id]

    def _remove_waiting(
        self, transactional_id: str
    ) -> tuple[Transaction | None, InitProducer | End | None]:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return None, None
        waiting, transaction.waiting = transaction.waiting, None
        return transaction, waiting

    def _markers_written(self, event: MarkersWritten, step: Step) -> None:
        transaction = self._transactions.get(event.transactional_id)
        value = None if transaction is None else transaction.value
        if self.is_loading or transaction is None or value is None:
            return
        sent = (value.producer_id, value.producer_epoch)
        if not value.state.is_prepared or sent != (event.producer_id, event.producer_epoch):
            return
        transaction.partitions_without_marker.difference_update(event.partitions)
        if not transaction.is_complete:
            return
        if owe_completion(transaction, step.now_ms):
            self._timers.owe(event.transactional_id, step.now_ms + COMPLETION_DELAY_MS)
        else:
            complete(transaction, step)

    def _complete(self, transactional_id: str, step: Step) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is not None:
            complete(transaction, step)

    def _find_or_make(self, transactional_id: str) -> Transaction:
        found = self._transactions.get(transactional_id)
        if found is None:
            found = self._transactions[transactional_id] = Transaction(transactional_id)
        return found

    def _schedule_timers(
        self, transaction: Transaction, before: StoredTransaction | None, value: StoredTransaction
    ) -> None:
        """Note what a new value of a live transaction makes due."""
        was_open = before is not None and before.state is TransactionState.ONGOING
        if value.state is TransactionState.ONGOING and not was_open:
            self._timers.time_out(transaction.transactional_id, value)
        elif transaction.is_complete:  # no partition took part
            self._timers.complete_at(transaction, AT_ONCE_MS)


def _timed_out(transactional_id: str, value: StoredTransaction, now_ms: int) -> TimedOut:
    open_ms = now_ms - value.start_ms
    return TimedOut(transactional_id, value.producer_id, open_ms, value.timeout_ms)


def _client_error(error: ErrorCode) -> ErrorCode:
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


def _refused(event: Request, error: ErrorCode) -> Reply:
    match event:
        case InitProducer():
            return InitProducerReply(error)
        case AddPartitions():
            return AddPartitionsReply(error)
        case Verify():
            return refused_verify(event, error)
        case End():
            return EndReply(error)


def _refused_reply(reply: Reply, error: ErrorCode) -> Reply:
    """Return what the asker gets when the records that its reply waited for were refused."""
    match reply:
        case InitProducerReply():
            return InitProducerReply(error)
        case AddPartitionsReply():
            return AddPartitionsReply(error)
        case EndReply():
            return EndReply(error)
        case VerifyReply():
            return VerifyReply(
                tuple(
                    (one, code if code is ErrorCode.NONE else error)
                    for one, code in reply.partitions
                )
            )
