"""The state machine of a producer's transactions, and the classes of its errors."""

import pytest

from kavka.core.transactional_producer.errors import (
    AbortableError,
    ErrorClass,
    FatalError,
    Stage,
    as_abortable,
    classify,
    refusal,
)
from kavka.core.transactional_producer.state import State, TransactionState
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ABORTABLE = AbortableError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
FENCED = FatalError(ErrorCode.PRODUCER_FENCED)


@pytest.fixture
def ready():
    made = TransactionState()
    made.begin_init()
    made.initialized()
    return made


@pytest.fixture
def opened(ready):
    ready.begin()
    return ready


def test_nothing_is_possible_before_init() -> None:
    transaction = TransactionState()
    for call in (
        transaction.begin,
        transaction.begin_commit,
        transaction.begin_abort,
        transaction.require_open,
    ):
        with pytest.raises(RuntimeError, match="needs init_transactions first"):
            call()
    assert transaction.state is State.UNINITIALIZED


def test_init_is_called_once(ready):
    with pytest.raises(RuntimeError, match="call begin_transaction"):
        ready.begin_init()


def test_a_transaction_does_not_begin_within_another(opened):
    with pytest.raises(RuntimeError, match="is in a transaction"):
        opened.begin()


def test_records_are_taken_between_begin_and_commit_alone(opened):
    opened.require_open()
    opened.begin_commit()
    with pytest.raises(RuntimeError, match="is committing"):
        opened.require_open()
    opened.require_accepting()  # what was taken before gets its batch now
    opened.ending()
    with pytest.raises(RuntimeError, match="is committing"):
        opened.require_accepting()
    opened.ended()
    with pytest.raises(RuntimeError, match="is in no transaction"):
        opened.require_open()


def test_partitions_take_part_when_the_coordinator_has_said_so(opened):
    opened.add_wanted([AT])
    assert not opened.includes_partition(AT)
    assert opened.next_to_add() == [AT]
    opened.add_wanted([AT, OTHER])
    assert opened.next_to_add() == [], "one request at a time"
    opened.partitions_added()
    assert opened.includes_partition(AT)
    assert opened.is_known
    assert opened.next_to_add() == [OTHER]


def test_refused_partitions_leave_nothing_to_end(opened):
    opened.add_wanted([AT])
    opened.next_to_add()
    opened.partitions_refused()
    assert not opened.includes_partition(AT)
    assert not opened.is_known


def test_the_next_transaction_knows_no_partitions(opened):
    opened.add_wanted([AT])
    opened.next_to_add()
    opened.partitions_added()
    opened.group_added("g")
    opened.begin_commit()
    opened.ended()
    opened.begin()
    assert not opened.includes_partition(AT)
    assert not opened.includes_group("g")
    assert not opened.is_known


def test_after_an_abortable_error_only_an_abort_is_possible(opened):
    opened.must_abort(ABORTABLE, must_bump=True)
    for call in (opened.begin_commit, opened.require_open, opened.raise_error):
        with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED: no"):
            call()
    with pytest.raises(RuntimeError, match="must abort"):
        opened.begin()
    opened.begin_abort()
    assert opened.must_bump
    opened.ended()
    assert (opened.state, opened.error, opened.must_bump) == (State.READY, None, False)


def test_a_record_that_fails_during_the_commit_stops_it(opened):
    opened.begin_commit()
    opened.must_abort(ABORTABLE)
    assert opened.state is State.MUST_ABORT


def test_a_failure_during_the_abort_only_raises_the_epoch(opened):
    opened.begin_abort()
    opened.must_abort(ABORTABLE, must_bump=True)
    assert (opened.state, opened.must_bump) == (State.ABORTING, True)


def test_the_first_error_stays(opened):
    opened.must_abort(ABORTABLE)
    opened.must_abort(AbortableError(ErrorCode.REQUEST_TIMED_OUT))
    assert opened.error is ABORTABLE


def test_a_fatal_error_ends_everything(opened):
    opened.must_abort(FENCED)
    for call in (
        opened.begin,
        opened.begin_commit,
        opened.begin_abort,
        opened.require_open,
        opened.raise_error,
    ):
        with pytest.raises(FatalError, match="PRODUCER_FENCED"):
            call()
    assert opened.state is State.FAILED


def test_nothing_is_added_after_an_error(opened):
    opened.add_wanted([AT])
    opened.must_abort(ABORTABLE)
    assert opened.next_to_add() == []


@pytest.mark.parametrize("stage", list(Stage))
def test_a_fenced_producer_is_fatal_in_any_response(stage):
    assert classify(stage, ErrorCode.PRODUCER_FENCED) is ErrorClass.FATAL


@pytest.mark.parametrize(
    ("stage", "code", "expected"),
    [
        (Stage.INIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorClass.RETRIABLE),
        (Stage.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorClass.FATAL),
        (Stage.INIT, ErrorCode.TRANSACTION_ABORTABLE, ErrorClass.FATAL),
        (Stage.ADD_PARTITIONS, ErrorCode.NOT_COORDINATOR, ErrorClass.RETRIABLE),
        (Stage.ADD_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorClass.RETRIABLE),
        (Stage.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorClass.ABORTABLE),
        (Stage.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorClass.ABORTABLE),
        (Stage.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorClass.FATAL),
        (Stage.ADD_PARTITIONS, ErrorCode.INVALID_TXN_STATE, ErrorClass.FATAL),
        (Stage.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorClass.ABORTABLE),
        (Stage.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, ErrorClass.ABORTABLE),
        (Stage.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorClass.ABORTABLE),
        (Stage.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, ErrorClass.ABORTABLE),
        (Stage.COMMIT_OFFSETS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorClass.RETRIABLE),
        (Stage.COMMIT_OFFSETS, ErrorCode.TRANSACTION_ABORTABLE, ErrorClass.ABORTABLE),
        (Stage.END, ErrorCode.INVALID_TXN_STATE, ErrorClass.FATAL),
        (Stage.END, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorClass.ABORTABLE),
        (Stage.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorClass.ABORTABLE),
        (Stage.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorClass.ABORTABLE),
        (Stage.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, ErrorClass.ABORTABLE),
        (Stage.PRODUCE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorClass.FATAL),
        (Stage.PRODUCE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorClass.FATAL),
    ],
)
def test_refusals_have_the_class_of_their_stage(stage, code, expected):
    assert classify(stage, code) is expected


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.PRODUCE])
def test_an_old_epoch_of_a_coordinator_means_fenced(stage):
    error = refusal(stage, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(error, FatalError)
    assert error.code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError("late"), ErrorCode.REQUEST_TIMED_OUT),
        (ConnectionError("lost"), ErrorCode.NETWORK_EXCEPTION),
        (ValueError("odd"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_record_that_failed_has_its_transaction_aborted(error, code):
    wrapped = as_abortable(error)
    assert isinstance(wrapped, AbortableError)
    assert wrapped.code is code
    assert wrapped.__cause__ is error
