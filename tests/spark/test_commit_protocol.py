"""The commit protocol of the exactly-once sink, without Spark and without brokers."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.admin import TransactionDescription
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.commit_protocol import (
    Done,
    Plan,
    Repair,
    Skip,
    TaskPlan,
    Write,
    check_repair,
    decision_of,
    outcome_of,
    plan_task,
    undecided_transactions,
    was_aborted,
    with_outcomes,
)
from kavka.spark.exactly_once.decisions import (
    BARRIER,
    Batch,
    CorruptDecision,
    Decision,
    Outcome,
    Part,
    SinkNames,
    decode,
    encode,
)
from kavka.spark.exactly_once.task_transactional_ids import TaskTransactionalIds
from kavka.spark.sink_options import is_sink_id

NAMES = SinkNames("job")
QUERY = "0b1c"


def state(producer_id: int = 1, epoch: int = 0) -> PreparedTxnState:
    return PreparedTxnState(producer_id, epoch)


def part(task: int, outcome: Outcome = Outcome.OPEN, digest: str = "d") -> Part:
    name = NAMES.task("0123456789abcdef", task)
    return Part(task, name, state(100 + task), 10 + task, digest, outcome)


def decided(number: int, *outcomes: Outcome, tasks: int | None = None) -> Decision:
    parts = tuple(part(task, outcome) for task, outcome in enumerate(outcomes))
    return Decision(Batch(QUERY, number), len(parts) if tasks is None else tasks, parts)


def plan(decision: Decision | None, accepts_other_writes: bool = False) -> Plan:
    return Plan(state(7, 3), decision, accepts_other_writes)


WHOLE = decided(5, Outcome.COMMITTED, Outcome.COMMITTED)
TORN = decided(5, Outcome.COMMITTED, Outcome.ABORTED, tasks=3)


# Names and the record


def test_no_sink_takes_the_ids_of_another_for_its_own() -> None:
    other = SinkNames("job-0123456789abcdef").task("0123456789abcdef", 0)
    assert NAMES.is_task(NAMES.task("0123456789abcdef", 12))
    assert not NAMES.is_task(other)
    assert not NAMES.is_task(SinkNames("job-2").task("0123456789abcdef", 0))
    assert not NAMES.is_task(NAMES.driver)
    assert not SinkNames("j.b").is_task(NAMES.task("0123456789abcdef", 0))


@pytest.mark.parametrize("text", ["", "a b", "ä", "a/b", "x" * 201])
def test_a_sink_has_a_name_that_a_topic_may_have(text: str) -> None:
    assert not is_sink_id(text)
    assert is_sink_id("orders-2.out_1")


PARTS = st.builds(
    Part,
    st.integers(0, 10_000),
    st.text(max_size=30),
    st.builds(PreparedTxnState, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)),
    st.integers(0, 2**40),
    st.text("0123456789abcdef", max_size=32),
    st.sampled_from(Outcome),
)


@given(st.text(max_size=40), st.integers(0, 2**63), st.lists(PARTS, max_size=5))
def test_a_record_is_read_as_it_was_written(write: str, number: int, parts: list[Part]) -> None:
    decision = Decision(Batch(write, number), 7, tuple(parts))
    read = decode(encode(decision))
    assert read == (replace(decision, parts=()) if decision.is_whole else decision)
    assert read.is_whole == decision.is_whole


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"form":2}',
        b'{"form":1,"write":"q","batch":-1,"tasks":1,"parts":[]}',
        b'{"form":1,"write":"q","batch":1,"tasks":1,"parts":[[0,"t","1:99999",1,"","open"]]}',
        b'{"form":1,"write":"q","batch":1,"tasks":1,"parts":[[0,"t","1:1",1,"","lost"]]}',
        b'{"form":1,"write":"q","batch":1,"tasks":1,"parts":[[0,"t"]]}',
    ],
)
def test_what_is_not_a_decision_is_said_to_be_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptDecision):
        decode(value)


def test_a_release_without_barriers_says_that_one_is_of_a_later_release() -> None:
    with pytest.raises(CorruptDecision, match="of a later release"):
        decode(BARRIER)


# What a task does


def test_a_batch_is_written_when_nothing_or_an_earlier_one_was_decided() -> None:
    assert plan_task(plan(None), Batch(QUERY, 0), 0) == Write()
    assert plan_task(plan(None), Batch(QUERY, 17), 0) == Write()
    assert plan_task(plan(WHOLE), Batch(QUERY, 6), 4) == Write()
    assert plan_task(plan(WHOLE), Batch(QUERY, 9), 4) == Write()


def test_a_batch_that_was_decided_is_skipped_whatever_the_split() -> None:
    assert [plan_task(plan(WHOLE), Batch(QUERY, 5), task) for task in (0, 1, 2, 99)] == [Skip()] * 4


def test_a_batch_before_the_decided_one_is_refused() -> None:
    with pytest.raises(ConnectorError, match="older than the sink"):
        plan_task(plan(WHOLE), Batch(QUERY, 4), 0)


def test_another_checkpoint_is_refused_unless_it_is_accepted() -> None:
    for number in (0, 5, 6):
        with pytest.raises(ConnectorError, match="onNewCheckpoint"):
            plan_task(plan(WHOLE), Batch("other", number), 0)
        assert plan_task(plan(WHOLE, True), Batch("other", number), 0) == Write()


def test_a_torn_batch_is_repaired_where_it_is_missing() -> None:
    courses = [plan_task(plan(TORN), Batch(QUERY, 5), task) for task in range(3)]
    assert courses == [Repair(TORN.parts[0]), Repair(TORN.parts[1]), Repair(None)]
    assert [isinstance(c, Repair) and c.must_write for c in courses] == [False, True, False]


def test_a_torn_batch_is_not_repaired_by_more_tasks_nor_passed_over() -> None:
    with pytest.raises(ConnectorError, match="not the same"):
        plan_task(plan(TORN), Batch(QUERY, 5), 3)
    with pytest.raises(ConnectorError, match="run that one again"):
        plan_task(plan(TORN), Batch(QUERY, 6), 0)
    with pytest.raises(ConnectorError, match="run that one again"):
        plan_task(plan(TORN, True), Batch("other", 0), 0)


@pytest.mark.parametrize(
    ("task", "rows", "digest", "is_same"),
    [
        (0, 10, "d", True),
        (0, 10, "e", False),
        (0, 9, "d", False),
        (0, 0, "", False),
        (1, 11, "d", True),
        (2, 0, "whatever", True),
        (2, 1, "d", False),
    ],
)
def test_a_repair_wants_the_rows_that_were_decided(
    task: int, rows: int, digest: str, is_same: bool
) -> None:
    repair = plan_task(plan(TORN), Batch(QUERY, 5), task)
    assert isinstance(repair, Repair)
    if is_same:
        check_repair(plan(TORN), repair, rows, digest)
    else:
        with pytest.raises(ConnectorError, match="not the same"):
            check_repair(plan(TORN), repair, rows, digest)


# What is decided


def done(course: TaskPlan, written: Part | None, of: Plan | None = None) -> Done:
    rows = 0 if written is None else written.rows
    return Done(plan(None) if of is None else of, Batch(QUERY, 5), course, rows, written)


def test_what_tasks_have_written_is_decided_in_the_order_of_tasks() -> None:
    messages = [done(Write(), part(2)), done(Write(), None), done(Write(), part(0))]
    assert decision_of(messages) == Decision(Batch(QUERY, 5), 3, (part(0), part(2)))


@pytest.mark.parametrize(
    "messages",
    [[], [done(Write(), None)], [done(Skip(), None, plan(WHOLE)), done(Skip(), None, plan(WHOLE))]],
)
def test_nothing_is_decided_when_nothing_was_written(messages: list[Done]) -> None:
    assert decision_of(messages) is None


def test_a_repair_adds_the_missing_part_to_those_there_are() -> None:
    replacement = replace(part(1), transactional_id="again", state=state(500))
    of = plan(TORN)
    messages = [
        done(Repair(TORN.parts[0]), None, of),
        done(Repair(TORN.parts[1]), replacement, of),
        done(Repair(None), None, of),
    ]
    assert decision_of(messages) == Decision(Batch(QUERY, 5), 3, (TORN.parts[0], replacement))
    with pytest.raises(ConnectorError, match="not the same"):
        decision_of(messages[:2])


# How it continues


def test_responses_say_that_a_part_is_committed_and_not_that_it_was_aborted() -> None:
    assert outcome_of(ErrorCode.NONE, part(0)) is Outcome.COMMITTED
    for code in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    ):
        assert outcome_of(code, part(0)) is None


@pytest.mark.parametrize(
    ("name", "producer_id", "epoch", "is_proof"),
    [
        ("CompleteAbort", 100, 5, True),  # by EndTxn
        ("CompleteAbort", 100, 6, True),  # by a timeout
        ("PrepareAbort", 100, 6, True),
        ("Empty", 100, 7, True),  # an operator has forced it
        ("Ongoing", 100, 5, False),
        (
            "Ongoing",
            100,
            6,
            False,
        ),  # Kafka raises the epoch in memory before the abort is in the log
        ("Empty", 100, 5, False),  # it has not learned of the partitions
        ("CompleteAbort", 100, 4, False),  # nor of the last InitProducerId
        ("CompleteCommit", 100, 4, False),
        ("CompleteCommit", 100, 5, False),
        ("PrepareCommit", 100, 5, False),
        ("CompleteCommit", 100, 6, False),  # transaction version 2
        ("CompleteAbort", 99, 9, False),
    ],
)
def test_an_abort_counts_only_if_the_coordinator_shows_it(
    name: str, producer_id: int, epoch: int, is_proof: bool
) -> None:
    one = replace(part(0), state=state(100, 5))
    found = TransactionDescription(BrokerId(1), name, producer_id, epoch, 60_000, None, [])
    assert was_aborted(found, one) is is_proof


def test_a_forgotten_part_was_committed_unless_it_had_a_time_out() -> None:
    forgotten = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert outcome_of(forgotten, part(0, digest="")) is Outcome.COMMITTED
    with pytest.raises(ConnectorError, match="It is no longer known"):
        outcome_of(forgotten, part(0))


def test_other_responses_are_errors() -> None:
    with pytest.raises(ConnectorError, match="cannot be committed"):
        outcome_of(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, part(0))


def test_outcomes_are_noted_of_open_parts_only() -> None:
    before = decided(5, Outcome.COMMITTED, Outcome.OPEN)
    after = with_outcomes(before, {1: Outcome.ABORTED})
    assert [one.outcome for one in after.parts] == [Outcome.COMMITTED, Outcome.ABORTED]
    assert not before.is_settled
    assert after.is_settled
    assert not after.is_whole


def test_what_was_listed_and_is_not_decided_is_left_over() -> None:
    listed = {one.transactional_id: one.state for one in WHOLE.parts}
    listed[WHOLE.parts[0].transactional_id] = state(100, 1)  # a later transaction of that id
    listed["other"] = state(9)
    assert undecided_transactions(listed, WHOLE) == {
        WHOLE.parts[0].transactional_id: state(100, 1),
        "other": state(9),
    }
    assert undecided_transactions(listed, None) == listed


# The ids of a process


def own_ids() -> TaskTransactionalIds:
    random_hex = random.Random(1)
    return TaskTransactionalIds(NAMES, lambda: f"{random_hex.getrandbits(64):016x}")


def test_a_process_uses_an_id_once_in_a_plan_and_again_in_the_next() -> None:
    ids = own_ids()
    first = [ids.allocate(state(7, 1)) for _ in range(3)]
    assert len(set(first)) == 3
    assert [ids.allocate(state(7, 2)) for _ in range(3)] == first
    assert [ids.allocate(state(8, 0)) for _ in range(3)] == first
    assert all(NAMES.is_task(one) for one in first)


@pytest.mark.parametrize("late", [state(7, 1), state(7, 2), state(6, 0)])
def test_a_task_of_an_older_plan_gets_an_unused_id(late: PreparedTxnState) -> None:
    ids = own_ids()
    used = {ids.allocate(plan) for plan in (state(6, 5), state(7, 1), state(7, 2), state(7, 3))}
    assert ids.allocate(late) not in used
    assert re.fullmatch(r"job-[0-9a-f]{16}-0", ids.allocate(late))
    assert ids.allocate(state(7, 3)) not in used
