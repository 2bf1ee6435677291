"""The commit protocol of the exactly-once sink. Pure.

Tasks write their rows in transactions of their own and leave them prepared; the driver decides about all of them by
one record, written in a transaction of its own, and then commits them one by one. A restart finds the record:

    plan     list the open transactions of the sink -> InitProducerId(driver) -> write a barrier, read the decision
             -> EndTxn(commit) what is decided, EndTxn(abort) what was listed and is not -> note the outcomes
    task     skip a batch that is decided; else InitProducerId(an id of this process's own), write, leave it prepared
    commit   list; every part is still open -> decision, in a transaction with the epoch of the plan   <- the moment
             -> EndTxn(commit) the parts, EndTxn(abort) what else was listed -> note the outcomes

Why this is safe, with any crash or late message:
 1. Only the last driver that planned can decide: InitProducerId fences the decision of those before, and when it
    returns, every earlier decision is in the log. A deposed leader does not return the log up to the
    barrier; so the driver sees them all (`decision_log`).
 2. No producer can fence a prepared transaction: ids of tasks belong to one process, which uses each once in a plan. So
    a late task, a repeated or a speculative one, writes a transaction that is in no decision.
 3. Aborts are safe: a transaction that was listed *before* the driver's own InitProducerId (or before its own decision)
    is not of a later plan; if it is not decided by then, it never will be. EndTxn names the epoch, so that no other
    transaction is ended.
 4. An id is used again only after the outcome of the last decision is noted. So EndTxn(commit) of an open part has one
    meaning: NONE, it is committed, now or before; an old epoch, it was aborted in spite of the decision. A deposed
    coordinator may return the latter, too, so it counts only if the coordinator shows the abort (`was_aborted`).

What remains is number 4's last case: brokers without two-phase commit abort a prepared transaction that gets too old
while no driver is there. Then Spark runs the batch again, and the parts that are missing are written again if, and only
if, every task has the same rows as before: as many, with the same digest. Else nothing is written and the query stops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kavka.client.admin import TransactionDescription
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import ErrorCode
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.decisions import Batch, Decision, Outcome, Part


@dataclass(frozen=True, slots=True)
class Plan:
    """The driver's plan for the tasks of one batch."""

    driver: PreparedTxnState
    """The producer id and epoch with which the decision will be written; no two plans have the same."""
    decided: Decision | None
    """The last decision. Invariant: it is settled."""
    accepts_other_writes: bool
    """True if a batch of another write than the decided one may be written."""


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """Stands for a plan that could not be made; tasks raise the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The batch is decided: consume the rows and write nothing."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows in a transaction."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The batch is decided and torn: the rows must be those of `part`, and are written if that was aborted."""

    part: Part | None
    """None: there must be no rows."""

    @property
    def must_write(self) -> bool:
        """Return whether the part is missing."""
        return self.part is not None and self.part.outcome is Outcome.ABORTED


TaskPlan = Skip | Write | Repair


@dataclass(frozen=True, slots=True)
class Done:
    """A task's message to its driver."""

    plan: Plan
    batch: Batch
    course: TaskPlan
    rows: int
    part: Part | None
    """The prepared part; None when the task has written nothing."""


def plan_task(plan: Plan, batch: Batch, task: int) -> TaskPlan:
    """Return what a task does. Raise ConnectorError for a batch that must not be written."""
    decided = plan.decided
    if decided is None:
        return Write()
    if decided.batch.write != batch.write:
        if plan.accepts_other_writes and decided.is_whole:
            return Write()
        if plan.accepts_other_writes:
            raise _not_whole(decided, batch)
        raise ConnectorError(
            f"This sink has {decided.batch}, and now comes {batch}: the checkpoint is another one, or something else "
            "writes with this sinkId, so records may come twice; give the query a sinkId of its own, or set "
            "onNewCheckpoint to reset to write them all the same."
        )
    if batch.number < decided.batch.number:
        raise ConnectorError(
            f"This sink has {decided.batch} already, and now comes {batch}: another run of the query is ahead, or the "
            "checkpoint is older than the sink (a restored one); go on with the newest checkpoint, or take another "
            "sinkId, with which what came after this checkpoint is written a second time."
        )
    if batch.number > decided.batch.number:
        if decided.is_whole:
            return Write()
        raise _not_whole(decided, batch)
    if decided.is_whole:
        return Skip()
    if task >= decided.tasks:
        raise _differs(decided)
    return Repair(decided.part_of(task))


def _not_whole(decided: Decision, batch: Batch) -> ConnectorError:
    return ConnectorError(
        f"A part of {decided.batch} was aborted by its timeout after it was decided, and now comes {batch}: run that "
        "one again, or use another sinkId."
    )


def check_repair(plan: Plan, repair: Repair, rows: int, digest: str) -> None:
    """Raise ConnectorError unless a task has the rows that it had when its batch was decided."""
    assert plan.decided is not None
    expected = (0, "") if repair.part is None else (repair.part.rows, repair.part.digest)
    if (rows, digest if rows else "") != expected:
        raise _differs(plan.decided)


def _differs(decided: Decision) -> ConnectorError:
    return ConnectorError(
        f"A part of {decided.batch} was aborted by its timeout after it was decided, and the batch is not the same "
        "when it is run again, so it cannot be completed: nothing was written. Brokers with two-phase commit do not "
        "abort; to go on, give the query another sinkId, which writes the batch again as a whole."
    )


def decision_of(messages: Sequence[Done]) -> Decision | None:
    """Return the decision about a batch after all its tasks; None when no row was written."""
    if not messages:
        return None
    plan, batch = messages[0].plan, messages[0].batch
    assert all((done.plan, done.batch) == (plan, batch) for done in messages)
    written = [done.part for done in messages if done.part is not None]
    parts = {part.task: part for part in written}
    assert len(parts) == len(written), "each task of Spark has one message"
    if any(isinstance(done.course, Repair) for done in messages):
        decided = plan.decided
        assert decided is not None
        if len(messages) != decided.tasks:
            raise _differs(decided)
        kept = {part.task: part for part in decided.parts if part.outcome is Outcome.COMMITTED}
        assert not kept.keys() & parts.keys()
        parts = kept | parts
    if not written:
        return None
    return Decision(batch, len(messages), tuple(parts[task] for task in sorted(parts)))


def outcome_of(code: ErrorCode, part: Part) -> Outcome | None:
    """Return what a response to EndTxn(commit) says of a part. Raise ConnectorError when it says neither.

    None: it was aborted, unless the coordinator is out of date; see `was_aborted`. An expired id is not open: only
    ended transactions expire, `transactional.id.expiration.ms` after the end.
    """
    match code:
        case ErrorCode.NONE:
            return Outcome.COMMITTED
        case (
            ErrorCode.PRODUCER_FENCED
            | ErrorCode.INVALID_PRODUCER_EPOCH
            | ErrorCode.INVALID_TXN_STATE
        ):
            return None
        case ErrorCode.INVALID_PRODUCER_ID_MAPPING | ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            if not part.digest:  # without a timeout there is one way to end
                return Outcome.COMMITTED
            raise ConnectorError(
                f"It is no longer known whether {part.transactional_id} was committed or aborted by its timeout: the "
                "query was down for longer than transactional.id.expiration.ms, in the middle of a commit."
            )
        case _:
            raise ConnectorError(f"{part.transactional_id} cannot be committed: {code.message}")


def was_aborted(description: TransactionDescription, part: Part) -> bool:
    """Return whether what a coordinator says of a part's id proves that the part was aborted.

    A deposed coordinator that is not notified yet answers from memory: a refusal may come from an epoch that it
    does not know yet, or from one that it could not store. But a state is in its memory only when it is in the log,
    so an end that it returns has happened; and a producer with a later epoch is behind that end (number 4), which
    an operator should force on open transactions only.
    """
    if description.producer_id != part.state.producer_id:
        return False
    if description.state in ("PrepareAbort", "CompleteAbort"):
        return description.producer_epoch >= part.state.epoch
    return description.state == "Empty" and description.producer_epoch > part.state.epoch


def with_outcomes(decision: Decision, outcomes: Mapping[int, Outcome]) -> Decision:
    """Return a decision with the outcomes of its open parts, by task."""
    parts = tuple(
        replace(part, outcome=outcomes[part.task]) if part.outcome is Outcome.OPEN else part
        for part in decision.parts
    )
    return replace(decision, parts=parts)


def undecided_transactions(
    listed: Mapping[str, PreparedTxnState], decided: Decision | None
) -> dict[str, PreparedTxnState]:
    """Return which of the open transactions, listed at the right time, are to be aborted: all but the decided ones."""
    kept: Collection[tuple[str, PreparedTxnState]] = (
        () if decided is None else {(part.transactional_id, part.state) for part in decided.parts}
    )
    return {name: state for name, state in listed.items() if (name, state) not in kept}
