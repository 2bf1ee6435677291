"""Errors of transactions, in three classes by how the producer recovers. Pure.

    class      what it means                                      what to do
    RETRIABLE  it may work in a moment                            nothing: the producer tries again by itself
    ABORTABLE  this transaction cannot be committed any more      abort_transaction, then begin the next one
    FATAL      this producer cannot be trusted any more: another  close it; if there is no other with its
               one has its transactional id, or it may not be     transactional.id, make a new one
               used, or the broker does not understand it

The tables follow the Java client of Apache Kafka 3.9 (TransactionManager) with one exception: an offset that a
group's coordinator refuses for reasons of its own is abortable, not fatal, because the next transaction need not
contain it.
"""

from __future__ import annotations

from enum import Enum

from kavka.errors import ErrorCode, KafkaError


class AbortableError(KafkaError):
    """The transaction cannot be committed. Call `abort_transaction`; the producer can begin another one then."""


class FatalError(KafkaError):
    """The producer is of no use any more: close it. What it had not committed is aborted, now or by its timeout."""


class Stage(Enum):
    """The request that was refused."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"
    PRODUCE = "Produce"


class ErrorClass(Enum):
    """See the table of this module."""

    RETRIABLE = 0
    ABORTABLE = 1
    FATAL = 2


_ALWAYS_FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_UNKNOWN_TO_BROKER = frozenset(
    {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""The coordinator knows this transactional id no more, or with another producer id: there is nothing to end."""
_ALWAYS_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
_ABORTABLE_BY_DEFAULT = frozenset({Stage.PRODUCE, Stage.ADD_PARTITIONS, Stage.COMMIT_OFFSETS})
_COORDINATORS = frozenset({Stage.ADD_PARTITIONS, Stage.ADD_OFFSETS, Stage.END})


def classify(stage: Stage, code: ErrorCode) -> ErrorClass:
    """Return the class of a refusal.

    An old epoch is fatal when a coordinator says so: it knows of the newer producer. A partition's leader only knows
    that the epoch was raised, which the coordinator does too when a transaction runs into its timeout: that is
    abortable, and the abort finds out (KIP-588).
    """
    if code in _ALWAYS_FATAL:
        return ErrorClass.FATAL
    if stage is Stage.INIT:  # there is no transaction yet that could be aborted
        return ErrorClass.RETRIABLE if code.retriable else ErrorClass.FATAL
    if code in _ALWAYS_ABORTABLE:
        return ErrorClass.ABORTABLE
    if code in _UNKNOWN_TO_BROKER:
        is_fatal = stage is Stage.PRODUCE and code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorClass.FATAL if is_fatal else ErrorClass.ABORTABLE
    if code is ErrorCode.INVALID_PRODUCER_EPOCH and stage is not Stage.PRODUCE:
        return ErrorClass.FATAL
    if code is ErrorCode.INVALID_TXN_STATE and stage in _COORDINATORS:
        return ErrorClass.FATAL
    if code.retriable and stage is not Stage.PRODUCE:
        return ErrorClass.RETRIABLE
    return ErrorClass.ABORTABLE if stage in _ABORTABLE_BY_DEFAULT else ErrorClass.FATAL


def is_unknown_to_broker(code: ErrorCode) -> bool:
    """Return whether the coordinator has said that it does not know the producer: then no EndTxn is sent."""
    return code in _UNKNOWN_TO_BROKER


def refusal(stage: Stage, code: ErrorCode, detail: str | None = None) -> KafkaError:
    """Return the exception of a refusal that is not retriable.

    A newer producer of the id is reported as PRODUCER_FENCED, or, by coordinators of offsets and older ones, as an old
    epoch; callers need to know one of the two.
    """
    if code is ErrorCode.INVALID_PRODUCER_EPOCH and stage is not Stage.PRODUCE:
        code = ErrorCode.PRODUCER_FENCED
    kind = FatalError if classify(stage, code) is ErrorClass.FATAL else AbortableError
    return kind(code, f"{stage.value}: {detail or code.message}")


def as_abortable(error: Exception) -> KafkaError:
    """Return what failed records mean for their transaction."""
    if isinstance(error, AbortableError | FatalError):
        return error
    if isinstance(error, KafkaError):
        wrapped = refusal(Stage.PRODUCE, error.code, error.detail)
    else:
        code = (
            ErrorCode.REQUEST_TIMED_OUT
            if isinstance(error, TimeoutError)
            else ErrorCode.NETWORK_EXCEPTION
            if isinstance(error, OSError)
            else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        wrapped = AbortableError(code, f"a record was not sent: {error}")
    wrapped.__cause__ = error
    return wrapped
