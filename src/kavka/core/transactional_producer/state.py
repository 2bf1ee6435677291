"""One producer's transactions as a state machine (KIP-98, KIP-360, KIP-890, KIP-939). Pure.

                        init                      begin
    UNINITIALIZED --> INITIALIZING --> READY ----------------> OPEN --commit--> COMMITTING --ended--> READY
                                         ^                      |                  |
                                         |                  must_abort         must_abort (a record failed)
                                         |                      v                  |
                                         |                  MUST_ABORT <-----------'
                                         |                      | abort (also from OPEN)
                                         '------- ended --- ABORTING
    any state --fail--> FAILED
    OPEN --prepare--> PREPARING --prepared--> PREPARED --commit or abort--> COMMITTING or ABORTING
    INITIALIZING --kept--> PREPARED: an earlier producer's transaction, which is to be ended before anything else

A partition takes part before its first batch is written: `wanted` (has records) -> `requested` (AddPartitionsToTxn
is in progress) -> `included`. Only batches of included partitions may be drained. `is_known` says that the coordinator
has a transaction that must be ended: one to which nothing was added is ended by forgetting it. In version 2 leaders
add their partition by themselves when its first batch comes, and so does a group's coordinator: nothing is requested.

An abort must raise the epoch when a batch with sequences was given up: the broker waits for numbers that will never
come. The coordinator raises it (InitProducerId with the present epoch), so that an older producer of the id, which
does not know the present epoch, cannot. In version 2 every end raises it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Self

from kavka.core.transactional_producer.errors import AbortableError, FatalError
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

_MAX_PRODUCER_ID = 2**63 - 1
_MAX_EPOCH = 2**15 - 1


class State(Enum):
    """See the drawing of this module; the values complete the sentence "the producer …"."""

    UNINITIALIZED = "needs init_transactions first"
    INITIALIZING = "is being initialised"
    READY = "is in no transaction: call begin_transaction"
    OPEN = "is in a transaction"
    PREPARING = "is preparing a transaction"
    PREPARED = "has a prepared transaction: commit, abort or complete it"
    COMMITTING = "is committing a transaction"
    MUST_ABORT = "must abort its transaction"
    ABORTING = "is aborting a transaction"
    FAILED = "must be closed"


class PreparedTxnState(NamedTuple):
    """The name of a prepared transaction (KIP-939), besides its transactional id, which the caller knows.

    `str` gives Kafka's text, `producer id:epoch`, for a database or a checkpoint; `parse` reads it.
    """

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        """Return `producer id:epoch`."""
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` gave. Raise ValueError for anything else."""
        producer_id, colon, epoch = text.partition(":")
        if not (colon and producer_id.isdecimal() and epoch.isdecimal()):
            raise ValueError(f"{text!r} is not the state of a prepared transaction")
        state = cls(int(producer_id), int(epoch))
        if state.producer_id > _MAX_PRODUCER_ID or state.epoch > _MAX_EPOCH:
            raise ValueError(f"{text!r} is not the state of a prepared transaction")
        return state


_CLOSING = (State.COMMITTING, State.PREPARING)
"""States in which the records taken before are still sent."""
NEWEST_VERSION = 2
"""The newest level of `transaction.version` that is known here."""


class TransactionState:
    """The state of a transactional producer. Misuse is a RuntimeError, and changes nothing."""

    def __init__(self) -> None:
        """Start uninitialised."""
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        """Reason of the state MUST_ABORT or FAILED."""
        self.must_bump = False
        """True if the abort must end with a new epoch."""
        self.is_known = False
        """True if the coordinator has a transaction to end."""
        self.version = 0
        """2 in a transaction of KIP-890, part 2; 0 in one whose partitions are added by the producer."""
        self.prepared: PreparedTxnState | None = None
        """The name of what is prepared; None if nothing was written, too."""
        self._is_ending = False
        self._wanted: dict[TopicPartition, None] = {}
        self._requested: dict[TopicPartition, None] = {}
        self._included: set[TopicPartition] = set()
        self._groups: set[str] = set()

    # States

    def begin_init(self) -> None:
        """Start to get a producer id."""
        self._require((State.UNINITIALIZED,), "init_transactions")
        self.state = State.INITIALIZING

    def initialized(self) -> None:
        """Set the producer id and epoch."""
        assert self.state is State.INITIALIZING
        self.state = State.READY

    def prepared_kept(self, state: PreparedTxnState) -> None:
        """Set the producer id and epoch of an earlier producer's kept transaction, whose end gives a new epoch."""
        assert self.state is State.INITIALIZING
        self.state = State.PREPARED
        self.prepared = state
        self.version = NEWEST_VERSION
        self.is_known = True

    def begin(self, version: int = 0) -> None:
        """Begin a transaction, by what the cluster's `transaction.version` is now."""
        self._require((State.READY,), "begin_transaction")
        self.state = State.OPEN
        self.version = version if version < NEWEST_VERSION else NEWEST_VERSION

    def begin_prepare(self) -> None:
        """Take no more records; raise AbortableError when some could not be written."""
        self.require_open()
        self.state = State.PREPARING

    def has_prepared(self, state: PreparedTxnState) -> None:
        """Note that all is written, and by what name others can end the transaction."""
        assert self.state is State.PREPARING
        self.state = State.PREPARED
        self.prepared = state if self.is_known else None

    def require_prepared(self) -> None:
        """Raise unless there is a prepared transaction."""
        self._require((State.PREPARED,), "complete_transaction")

    def begin_commit(self) -> None:
        """Take no more records; raise AbortableError when some could not be written."""
        if self.state is not State.PREPARED:
            self.require_open()
        self.state = State.COMMITTING

    def begin_abort(self) -> None:
        """Take no more records."""
        if self.state is State.FAILED:
            self._raise_error()
        self._require((State.OPEN, State.MUST_ABORT, State.PREPARED), "abort_transaction")
        self.state = State.ABORTING

    def ending(self) -> None:
        """Refuse further batches: all are written, and the decision is sent."""
        self._is_ending = True

    def ended(self) -> None:
        """Note that the transaction is committed or aborted."""
        assert self.state in (State.COMMITTING, State.ABORTING)
        self.state = State.READY
        self.error = self.prepared = None
        self.must_bump = self.is_known = self._is_ending = False
        for partitions in (self._wanted, self._requested):
            partitions.clear()
        self._included.clear()
        self._groups.clear()

    # What goes wrong

    def must_abort(self, error: KafkaError, must_bump: bool = False) -> None:
        """Note that the transaction cannot be committed; the first reason stays. A FatalError fails the producer."""
        if isinstance(error, FatalError):
            self.fail(error)
            return
        if self.state in (State.OPEN, *_CLOSING, State.MUST_ABORT, State.ABORTING):
            self.must_bump = self.must_bump or must_bump
        if self.state in (State.OPEN, *_CLOSING):
            self.state = State.MUST_ABORT
            self.error = error

    def fail(self, error: KafkaError) -> None:
        """Note that this producer can do nothing more; the first reason stays."""
        if self.state is not State.FAILED:
            self.state = State.FAILED
            self.error = error

    @property
    def has_failed(self) -> bool:
        """Return whether waiting records will not be sent."""
        return self.state in (State.FAILED, State.MUST_ABORT, State.ABORTING)

    @property
    def can_abort(self) -> bool:
        """Return whether there is a transaction that this producer alone may end."""
        return self.state in (State.OPEN, State.MUST_ABORT)

    @property
    def has_ended(self) -> bool:
        """Return whether there is no transaction to end."""
        return self.state in (
            State.UNINITIALIZED,
            State.INITIALIZING,
            State.READY,
            State.FAILED,
        )

    def require_open(self) -> None:
        """Raise unless records may be sent: AbortableError, FatalError, or RuntimeError outside of a transaction."""
        if self.state is not State.OPEN:
            if self.state in (State.MUST_ABORT, State.FAILED):
                self._raise_error()
            if self.state is State.ABORTING:
                raise aborted_error()
            raise RuntimeError(f"the producer {self.state.value}")

    @property
    def refuses_records(self) -> bool:
        """Return whether there is no transaction that a record could belong to: sending one is an error."""
        return self.state in (
            State.UNINITIALIZED,
            State.INITIALIZING,
            State.READY,
            State.PREPARED,
        )

    def require_begun(self) -> None:
        """Raise RuntimeError where `refuses_records`."""
        if self.refuses_records:
            self.require_open()

    def require_accepting(self) -> None:
        """As `require_open`, for records that were taken before the commit and get their batch now."""
        if self.state not in _CLOSING or self._is_ending:
            self.require_open()

    def raise_error(self) -> None:
        """Raise why the transaction, or the producer, has failed, if it has."""
        if self.state in (State.MUST_ABORT, State.FAILED):
            self._raise_error()

    def _raise_error(self) -> None:
        assert self.error is not None
        # A new one each time: an exception that is raised again grows its traceback.
        raise type(self.error)(self.error.code, self.error.detail) from self.error

    def _require(self, states: tuple[State, ...], call: str) -> None:
        if self.state is State.FAILED:
            self._raise_error()
        if self.state not in states:
            raise RuntimeError(f"{call} is not possible: the producer {self.state.value}")

    # Partitions and groups that take part

    def includes_partition(self, topic_partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be written."""
        takes_part = self.version >= 2 or topic_partition in self._included
        return takes_part and self.state is not State.FAILED

    def add_wanted(self, partitions: Iterable[TopicPartition]) -> None:
        """Record partitions with records to send."""
        if self.state in (State.OPEN, *_CLOSING):
            for topic_partition in partitions:
                if self.version >= 2:
                    self.is_known = True
                elif (
                    topic_partition not in self._included and topic_partition not in self._requested
                ):
                    self._wanted[topic_partition] = None

    def next_to_add(self) -> list[TopicPartition]:
        """Return the partitions to be added now; none while a response is awaited, as there is one at a time."""
        if self._requested or not self._wanted or self.has_failed:
            return []
        self._requested, self._wanted = self._wanted, {}
        return list(self._requested)

    def partitions_added(self) -> None:
        """Note that the partitions asked for take part."""
        self._included.update(self._requested)
        self._requested.clear()
        self.is_known = True

    def partitions_refused(self) -> None:
        """Note that none of the partitions asked for takes part."""
        self._requested.clear()

    def includes_group(self, group_id: str) -> bool:
        """Return whether the offsets of the group take part."""
        return self.version >= 2 or group_id in self._groups

    def group_added(self, group_id: str) -> None:
        """Note that they do."""
        self._groups.add(group_id)
        self.is_known = True


def aborted_error() -> AbortableError:
    """Return what records get that were not sent when their transaction was aborted."""
    return AbortableError(
        ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted before the record was sent"
    )
