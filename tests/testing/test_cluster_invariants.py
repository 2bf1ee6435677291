"""Each invariant of replication and control by itself: what it accepts, and what it refuses."""

from __future__ import annotations

import pytest

from kavka.client.producer.prepared import PreparedTxnState
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.testing.simulation.brokers.faults import POWER, PROCESSES
from kavka.testing.simulation.events import (
    Audited,
    Batch,
    BatchesSeen,
    CommitAsked,
    Committed,
    CommittedRead,
    ControllerElected,
    Decided,
    Deleted,
    EndAsked,
    EndSeen,
    Event,
    Looked,
    PositionSeen,
    Prepared,
    ReplicaSeen,
    Resumed,
    SentInTransaction,
    StateWritten,
    TookOver,
    TransactionEnded,
    TransactionsAudited,
    WatermarkSeen,
)
from kavka.testing.simulation.invariants import Invariant, Violation, for_cluster, for_model
from kavka.testing.simulation.invariants.controlling import OneControllerPerEpoch, StatesGoForward
from kavka.testing.simulation.invariants.groups import CommittedRecordsWereProcessedOrDeleted
from kavka.testing.simulation.invariants.replication import (
    CommittedLogsAreEqual,
    EndOfPartitionNeverGoesBack,
    InSyncReplicasHaveWhatIsCommitted,
    LeadersWatermarkOnlyGrows,
    OneLeaderPerEpoch,
)
from kavka.testing.simulation.invariants.transactions import (
    EachInputIsProcessedOnce,
    FencedProducersCommitNothing,
    OffsetsMoveWithTransactions,
    OnlyCommittedRecordsAreRead,
    TransactionsAreAllOrNothing,
)
from kavka.testing.simulation.invariants.two_phase import PreparedTransactionsEndAsDecided
from kavka.wire.stored.znodes import StateNode

T0 = TopicPartition("t", 0)


def led(broker: int, epoch: int = 0, mark: int = 0, end: int = 9, run: int = 1) -> ReplicaSeen:
    return ReplicaSeen(broker, run, T0, NO_TOPIC_ID, True, epoch, mark, 0, end)


def following(broker: int, end: int) -> ReplicaSeen:
    return ReplicaSeen(broker, 1, T0, NO_TOPIC_ID, False, 0, 0, 0, end)


def looked(*replicas: ReplicaSeen, isr: tuple[int, ...] = (1, 2)) -> Looked:
    return Looked(replicas, {T0: StateNode(1, 0, 1, list(isr))})


def state(leader: int, epoch: int, isr: tuple[int, ...] = (1, 2), controller: int = 1) -> StateNode:
    return StateNode(leader, epoch, controller, list(isr))


def written(
    after: StateNode, before: StateNode | None = None, session: int = 7, controller_epoch: int = 1
) -> StateWritten:
    return StateWritten("t", 0, NO_TOPIC_ID, before, after, session, controller_epoch)


def batches(broker: int, *found: Batch) -> BatchesSeen:
    return BatchesSeen(broker, NO_TOPIC_ID, T0, found)


T1 = TopicPartition("t", 1)
GROUP = "group-of-i"


def sent(transaction: str, number: int, producer: str = "p", at: TopicPartition = T0) -> Event:
    return SentInTransaction(transaction, "i", producer, at, value(transaction, number))


def value(transaction: str, number: int) -> bytes:
    return f"i/{number}/{transaction}/".encode()


def shown(at_0: list[bytes], at_1: list[bytes], offset: int = 0) -> TransactionsAudited:
    return TransactionsAudited({T0: tuple(at_0), T1: tuple(at_1)}, {GROUP: offset})


def asked(transaction: str, offset: int) -> Event:
    return CommitAsked(transaction, GROUP, offset)


def ended(transaction: str, *, committed: bool) -> Event:
    return TransactionEnded(transaction, committed)


BOTH = [sent("a", 0), sent("a", 1, at=T1), asked("a", 2)]
"""A transaction of two partitions."""
TAKEN = [TookOver("i", "p", 7, 0), sent("a", 0, "p"), TookOver("i", "q", 7, 3)]
"""One that is open when another producer takes the id over."""
MINE, NEXT, LATER = (PreparedTxnState(7, epoch) for epoch in (1, 2, 3))
PREPARED = [sent("a", 0), sent("a", 1, at=T1), Prepared("a", "i", MINE)]
TO_COMMIT, TO_ABORT = (Decided("i", MINE, committed) for committed in (True, False))
WHOLE, NOTHING = shown([value("a", 0)], [value("a", 1)], 2), shown([], [])
AUDIT = Audited(T0, 0, 1, ((0, b"a"),))
COMMITTED = Committed("g", "m", T0, 1, 1.0)

HOLDS: list[tuple[type[Invariant], list[Event]]] = [
    (OneLeaderPerEpoch, [written(state(1, 0)), looked(led(1)), looked(led(2, epoch=1))]),
    (InSyncReplicasHaveWhatIsCommitted, [looked(led(1, mark=5), following(2, 5))]),
    (InSyncReplicasHaveWhatIsCommitted, [looked(led(1, mark=5), following(2, 4), isr=(1,))]),
    (InSyncReplicasHaveWhatIsCommitted, [looked(led(1, epoch=3, mark=5), following(2, 4))]),
    (LeadersWatermarkOnlyGrows, [looked(led(1, mark=4)), looked(led(1, epoch=1, mark=3))]),
    (LeadersWatermarkOnlyGrows, [looked(led(1, mark=4)), looked(led(1, mark=3, run=2))]),
    (CommittedLogsAreEqual, [batches(1, Batch(0, 3, 0, 99)), batches(2, Batch(0, 3, 0, 99))]),
    (
        CommittedLogsAreEqual,
        [
            batches(1, Batch(0, 3, 0, 0, ((0, 5), (3, 6)))),
            batches(1, Batch(0, 3, 0, 0, ((3, 6),))),
            batches(2, Batch(0, 3, 0, 0)),
        ],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [EndAsked("r", T0), WatermarkSeen("q", T0, 5, 1), EndSeen("r", T0, 4, 1)],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [WatermarkSeen("q", T0, 5, 2), EndAsked("r", T0), EndSeen("r", T0, 4, 1)],
    ),
    (OneControllerPerEpoch, [ControllerElected(1, 7), written(state(1, 0))]),
    (StatesGoForward, [written(state(1, 0)), written(state(2, 1), state(1, 0))]),
    (StatesGoForward, [written(state(-1, 1, (2,)), state(1, 0))]),
    (CommittedRecordsWereProcessedOrDeleted, [COMMITTED, Deleted(T0, 1), AUDIT]),
    (TransactionsAreAllOrNothing, [*BOTH, shown([value("a", 0)], [value("a", 1)])]),
    (TransactionsAreAllOrNothing, [*BOTH, shown([], [])]),
    (OnlyCommittedRecordsAreRead, [*BOTH, CommittedRead("r", T0, 0, value("a", 0))]),
    (OnlyCommittedRecordsAreRead, [*BOTH, ended("a", committed=False), shown([], [])]),
    (FencedProducersCommitNothing, [*TAKEN, asked("a", 1), shown([], [])]),
    (
        FencedProducersCommitNothing,
        [*TAKEN[:2], asked("a", 1), *TAKEN[2:], ended("a", committed=True)],
    ),
    (
        FencedProducersCommitNothing,
        [TAKEN[2], *TAKEN[:2], TAKEN[2], sent("b", 0, "q"), asked("b", 1)],
    ),
    (OffsetsMoveWithTransactions, [*BOTH, PositionSeen(GROUP, 2)]),
    (OffsetsMoveWithTransactions, [*BOTH, shown([value("a", 0)], [value("a", 1)], 2)]),
    (OffsetsMoveWithTransactions, [*BOTH, PositionSeen(GROUP, 0), shown([], [], 0)]),
    (EachInputIsProcessedOnce, [shown([value("a", 0)], [value("a", 1)], 2)]),
    (
        FencedProducersCommitNothing,
        [*TAKEN[:2], Prepared("a", "i", MINE), TAKEN[2], asked("a", 1), ended("a", committed=True)],
    ),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_COMMIT, ended("a", committed=True), WHOLE]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_ABORT, ended("a", committed=False), NOTHING]),
    (PreparedTransactionsEndAsDecided, [TO_ABORT, *PREPARED, NOTHING]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, Resumed("i", NEXT, MINE), TO_COMMIT, WHOLE]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_COMMIT, Resumed("i", NEXT, None)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, Resumed("i", MINE, None)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, Resumed("j", NEXT, None)]),
    (
        PreparedTransactionsEndAsDecided,
        [*PREPARED, TO_COMMIT, CommittedRead("r", T0, 0, value("a", 0))],
    ),
    (PreparedTransactionsEndAsDecided, [*BOTH, CommittedRead("r", T0, 0, value("a", 0)), NOTHING]),
]

BREAKS: list[tuple[type[Invariant], list[Event]]] = [
    (OneLeaderPerEpoch, [written(state(1, 0)), looked(led(2))]),
    (OneLeaderPerEpoch, [looked(led(1), led(2))]),
    (InSyncReplicasHaveWhatIsCommitted, [looked(led(1, mark=5), following(2, 4))]),
    (LeadersWatermarkOnlyGrows, [looked(led(1, mark=4)), looked(led(1, mark=3))]),
    (CommittedLogsAreEqual, [batches(1, Batch(0, 3, 0, 99)), batches(2, Batch(0, 3, 1, 99))]),
    (CommittedLogsAreEqual, [batches(1, Batch(0, 3, 0, 99)), batches(2, Batch(0, 3, 0, 98))]),
    (
        CommittedLogsAreEqual,
        [
            batches(1, Batch(0, 3, 0, 0, ((0, 5), (3, 6)))),
            batches(2, Batch(0, 3, 0, 0, ((3, 7),))),
        ],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [WatermarkSeen("q", T0, 5, 1), EndAsked("r", T0), EndSeen("r", T0, 4, 2)],
    ),
    (OneControllerPerEpoch, [ControllerElected(2, 7), ControllerElected(2, 8)]),
    (OneControllerPerEpoch, [ControllerElected(1, 7), written(state(1, 0), session=8)]),
    (OneControllerPerEpoch, [ControllerElected(1, 7), written(state(1, 0, controller=2))]),
    (StatesGoForward, [written(state(1, 0, ()))]),
    (StatesGoForward, [written(state(3, 0))]),
    (StatesGoForward, [written(state(1, 0), state(1, 1))]),
    (StatesGoForward, [written(state(2, 0), state(1, 0))]),
    (StatesGoForward, [written(state(3, 1, (3,)), state(1, 0))]),
    (CommittedRecordsWereProcessedOrDeleted, [COMMITTED, AUDIT]),
    (TransactionsAreAllOrNothing, [*BOTH, shown([value("a", 0)], [])]),
    (TransactionsAreAllOrNothing, [*BOTH, shown([value("a", 0)] * 2, [value("a", 1)])]),
    (TransactionsAreAllOrNothing, [*BOTH, ended("a", committed=True), shown([], [])]),
    (OnlyCommittedRecordsAreRead, [sent("a", 0), CommittedRead("r", T0, 0, value("a", 0))]),
    (OnlyCommittedRecordsAreRead, [CommittedRead("r", T0, 0, value("a", 0))]),
    (
        OnlyCommittedRecordsAreRead,
        [*BOTH, CommittedRead("r", T0, 0, value("a", 0)), ended("a", committed=False)],
    ),
    (OnlyCommittedRecordsAreRead, [*BOTH, ended("a", committed=False), shown([value("a", 0)], [])]),
    (
        OnlyCommittedRecordsAreRead,
        [
            *BOTH,
            CommittedRead("r", T0, 0, value("a", 0)),
            CommittedRead("r", T0, 0, value("a", 0)),
        ],
    ),
    (FencedProducersCommitNothing, [*TAKEN, asked("a", 1), ended("a", committed=True)]),
    (FencedProducersCommitNothing, [*TAKEN, shown([value("a", 0)], [])]),
    (
        FencedProducersCommitNothing,
        [*TAKEN, sent("b", 0, "p"), asked("b", 1), ended("b", committed=True)],
    ),
    (OffsetsMoveWithTransactions, [*BOTH, ended("a", committed=True), PositionSeen(GROUP, 0)]),
    (OffsetsMoveWithTransactions, [*BOTH, ended("a", committed=False), PositionSeen(GROUP, 2)]),
    (OffsetsMoveWithTransactions, [sent("a", 0), PositionSeen(GROUP, 1)]),
    (OffsetsMoveWithTransactions, [*BOTH, shown([value("a", 0)], [value("a", 1)], 0)]),
    (OffsetsMoveWithTransactions, [*BOTH, shown([], [], 2)]),
    (EachInputIsProcessedOnce, [shown([value("a", 0)], [value("b", 0)], 1)]),
    (EachInputIsProcessedOnce, [shown([value("a", 1)], [], 2)]),
    (
        FencedProducersCommitNothing,
        [*TAKEN, Prepared("a", "i", MINE), asked("a", 1), ended("a", committed=True)],
    ),
    (PreparedTransactionsEndAsDecided, [*PREPARED, ended("a", committed=True)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, ended("a", committed=False)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_ABORT, ended("a", committed=True)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_COMMIT, NOTHING]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_ABORT, WHOLE]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, TO_COMMIT, shown([value("a", 0)], [])]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, WHOLE]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, Resumed("i", NEXT, None)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, Resumed("i", LATER, NEXT)]),
    (PreparedTransactionsEndAsDecided, [*PREPARED, CommittedRead("r", T0, 0, value("a", 0))]),
    (
        PreparedTransactionsEndAsDecided,
        [*PREPARED, TO_ABORT, CommittedRead("r", T0, 0, value("a", 0))],
    ),
]


def see(kind: type[Invariant], events: list[Event]) -> None:
    invariant = kind()
    for event in events:
        invariant.observe(event)


@pytest.mark.parametrize(("kind", "events"), HOLDS)
def test_what_must_be_so_is_accepted(kind: type[Invariant], events: list[Event]) -> None:
    see(kind, events)


@pytest.mark.parametrize(("kind", "events"), BREAKS)
def test_what_must_not_be_is_refused(kind: type[Invariant], events: list[Event]) -> None:
    with pytest.raises(Violation):
        see(kind, events)


def test_every_invariant_of_clusters_is_seen_to_break_and_to_hold() -> None:
    alone = {type(invariant) for invariant in for_model(PROCESSES)}
    kinds = {type(invariant) for invariant in for_cluster(PROCESSES, two_phase=True)} - alone
    assert {kind for kind, _ in BREAKS} == kinds == {kind for kind, _ in HOLDS}


def test_replica_in_sync_may_be_short_while_its_loss_of_power_is_not_known() -> None:
    assert InSyncReplicasHaveWhatIsCommitted not in map(type, for_cluster(POWER))
