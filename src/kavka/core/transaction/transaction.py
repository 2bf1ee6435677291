"""A transactional id: its producer and the state of its transaction.

State             means                                          leaves for
EMPTY             a producer has its epoch, and written nothing  ONGOING (a partition takes part), EMPTY (a new epoch)
ONGOING           partitions take part                           PREPARE_COMMIT (it ends so), PREPARE_ABORT (it ends so,
                                                                 is open for too long, or another producer takes over)
PREPARE_COMMIT    the outcome stands; markers are being written  COMPLETE_COMMIT (every partition has its marker)
PREPARE_ABORT     the outcome stands; markers are being written  COMPLETE_ABORT (every partition has its marker)
COMPLETE_COMMIT   nothing is open                                ONGOING, EMPTY, PREPARE_ABORT (*), or gone: expired
COMPLETE_ABORT    nothing is open                                ONGOING, EMPTY, PREPARE_ABORT (*), or gone: expired

(*) Clients of version 2 (KIP-890) may abort what they never began, and get a new epoch by it; so from EMPTY.

PREPARE is the point of no return: from then on the log decides, with any coordinator. Kafka's PrepareEpochFence is
no state here: to fence a producer and to abort its transaction is one record, PREPARE_ABORT with the next epoch.

`value` is hard state: the last record of the log. All else is soft and lost with the coordinator.

When every partition has its marker, COMPLETE_... follows from the log: a later coordinator comes to it, too. Its record
is *owed*: it is written in one batch with the next record of the id, which most producers bring at once, or alone a
moment later. Until then decisions and descriptions build on it (`latest`) as if it were stored.
"""

from __future__ import annotations

from typing import Any

from kavka.core.transaction.events import End, InitProducer
from kavka.core.transaction.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Identity,
    StoredTransaction,
    TransactionState,
)
from kavka.ids import TopicPartition
from kavka.values import frozen, replace

MAX_EPOCH = 32_767
"""No producer ever has it: it is left for the coordinator to fence the last one that had an epoch of this id."""

_S = TransactionState
_CLOSED = (_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
_PREVIOUS: dict[TransactionState, tuple[TransactionState, ...]] = {
    _S.EMPTY: _CLOSED,
    _S.ONGOING: (*_CLOSED, _S.ONGOING),
    _S.PREPARE_COMMIT: (_S.ONGOING,),
    _S.PREPARE_ABORT: (*_CLOSED, _S.ONGOING),
    _S.COMPLETE_COMMIT: (_S.PREPARE_COMMIT,),
    _S.COMPLETE_ABORT: (_S.PREPARE_ABORT,),
}


@frozen
class Pending:
    """The state that a record on its way to the log will give the transaction."""

    value: StoredTransaction | None
    last_producer_epoch: int
    previous_producer_id: int


class Transaction:
    """The state of one transactional id."""

    __slots__ = (
        "completion",
        "is_completing",
        "last_producer_epoch",
        "partitions_without_marker",
        "pending",
        "previous_producer_id",
        "transactional_id",
        "value",
        "waiting",
    )

    def __init__(self, transactional_id: str) -> None:
        """Create an id without a value; it counts as missing until it has one."""
        self.transactional_id = transactional_id
        self.value: StoredTransaction | None = None
        # At most one record is pending: other requests meanwhile get a retriable error.
        self.pending: Pending | None = None
        # The request that continues when a producer id has come.
        self.waiting: InitProducer | End | None = None
        # The epoch before the present one, -1 unless the producer itself asked for the present one: it may ask again,
        # because the response was lost (KIP-360).
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.previous_producer_id = NO_PRODUCER_ID
        # Invariant: empty unless the state is a PREPARE; then the partitions that lack their marker.
        self.partitions_without_marker: set[TopicPartition] = set()
        # The end that is owed to the log, or on its way there. Invariant: None unless `value` is a PREPARE.
        self.completion: StoredTransaction | None = None
        # True if the end is on its way; a record behind it may be pending.
        self.is_completing = False

    @property
    def latest(self) -> StoredTransaction | None:
        """Return what decisions build on: the end that is owed, else the stored value."""
        return self.value if self.completion is None else self.completion

    @property
    def is_busy(self) -> bool:
        """Return whether a change is in progress, so that no other may begin."""
        if self.pending is not None or self.waiting is not None:
            return True
        value = self.value
        return self.completion is None and value is not None and value.state.is_prepared

    @property
    def is_complete(self) -> bool:
        """Return whether all partitions have their marker, and the end is neither stored nor owed yet."""
        value = self.value
        is_prepared = self.completion is None and value is not None and value.state.is_prepared
        return is_prepared and not self.partitions_without_marker and self.pending is None

    @property
    def owes_completion(self) -> bool:
        """Return whether the end is to be written, and not on its way."""
        return self.completion is not None and not self.is_completing

    def propose(
        self, value: StoredTransaction, last_producer_epoch: int | None = None
    ) -> StoredTransaction:
        """Note that `value` is on its way to the log, and return it as it is to be stored there.

        The last epoch stays as it is unless a new one is given.
        """
        previous = self.latest
        assert self.pending is None, f"{self.transactional_id} has a record on its way"
        assert (
            value.state is _S.EMPTY
            if previous is None
            else previous.state in _PREVIOUS[value.state]
        )
        assert 0 <= value.producer_epoch <= MAX_EPOCH
        before = self.previous_producer_id
        if previous is not None and previous.producer_id != value.producer_id:
            before = previous.producer_id
        stored = before
        if value.client_transaction_version == 0:
            # The older form of the record has no place for them.
            assert value.next_producer_id == NO_PRODUCER_ID
            stored = NO_PRODUCER_ID
        if value.previous_producer_id != stored:
            value = replace(value, previous_producer_id=stored)
        last = self.last_producer_epoch if last_producer_epoch is None else last_producer_epoch
        self.pending = Pending(value, last, before)
        return value

    def apply(self, value: StoredTransaction) -> None:
        """Take a value from the log: the end that was owed, the one that was pending, or any while loading."""
        self.value = value
        if self.completion is not None:
            assert value is self.completion
            self.completion, self.is_completing = None, False
            return
        pending, self.pending = self.pending, None
        if pending is not None:
            self.last_producer_epoch = pending.last_producer_epoch
            self.previous_producer_id = pending.previous_producer_id
        else:
            self.last_producer_epoch = NO_PRODUCER_EPOCH
            self.previous_producer_id = value.previous_producer_id
        self.partitions_without_marker = set(value.partitions) if value.state.is_prepared else set()

    def check(self) -> None:
        """Assert the invariants."""
        value = self.value
        assert self.pending is None or self.waiting is None
        if value is None:
            assert self.is_busy, "a transactional id without state and requests is not kept"
            return
        assert 0 <= value.producer_epoch <= MAX_EPOCH
        assert value.state.is_open or not value.partitions
        assert value.state.is_open or value.next_producer_id == NO_PRODUCER_ID
        assert self.partitions_without_marker <= value.partitions
        assert value.state.is_prepared or not self.partitions_without_marker
        if self.completion is None:
            assert not self.is_completing
            return
        assert value.state.is_prepared
        assert not self.partitions_without_marker
        assert self.is_completing or self.pending is None, (
            "what follows an end is written behind it"
        )


def is_exhausted(producer_epoch: int) -> bool:
    """Return whether a producer id has no further epoch for a producer."""
    return producer_epoch >= MAX_EPOCH - 1


def with_producer(
    value: StoredTransaction, successor: Identity, **changes: Any
) -> StoredTransaction:
    """Return the value with what the producer has when the transaction is complete, and with other changes.

    The markers' epoch is above all that took part, so that nothing written late can join what comes next.
    """
    client = value.client
    is_same_id = client.producer_id == value.producer_id
    epoch = min((client if is_same_id else value).producer_epoch + 1, MAX_EPOCH)
    if successor == (value.producer_id, epoch):
        successor = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return replace(
        value,
        producer_epoch=epoch,
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.producer_epoch or NO_PRODUCER_EPOCH,
        **changes,
    )
