"""Each invariant of replication and control by itself: what it accepts, and what it refuses."""

from __future__ import annotations

import pytest

from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.simulation.brokers.faults import POWER, PROCESSES
from kavka.simulation.events import (
    Acknowledged,
    Audited,
    Batch,
    BatchesSeen,
    ClusterObserved,
    CommitRequested,
    Committed,
    CommittedRead,
    CommittedSeen,
    ControllerElected,
    Decided,
    Deleted,
    EndOffsetRead,
    EndOffsetRequested,
    Event,
    LogsAudited,
    PositionSeen,
    Prepared,
    Processed,
    ProducerInitialized,
    Read,
    ReplicaSeen,
    Resumed,
    Sent,
    SentInTransaction,
    StateWritten,
    TransactionEnded,
    TransactionsAudited,
    UncleanElection,
    WatermarkSeen,
)
from kavka.simulation.invariants import Invariant, Violation, for_cluster, for_model
from kavka.simulation.invariants.acknowledged import AcknowledgedRecordsSurvive
from kavka.simulation.invariants.controller import OneControllerPerEpoch, StatesGoForward
from kavka.simulation.invariants.duplicates import IdempotentProducersNeverDuplicate
from kavka.simulation.invariants.groups import (
    CommittedOffsetsStay,
    CommittedRecordsWereProcessedOrDeleted,
)
from kavka.simulation.invariants.history import RecordsNeverChange
from kavka.simulation.invariants.order import RecordsKeepTheirOrder
from kavka.simulation.invariants.replication import (
    CommittedLogsAreEqual,
    EndOfPartitionNeverGoesBack,
    InSyncReplicasHaveWhatIsCommitted,
    LeadersWatermarkOnlyGrows,
    OneLeaderPerEpoch,
    ReplicasEndAlike,
)
from kavka.simulation.invariants.transactions import (
    EachInputIsProcessedOnce,
    FencedProducersCommitNothing,
    OffsetsMoveWithTransactions,
    OnlyCommittedRecordsAreRead,
    TransactionsAreAllOrNothing,
)
from kavka.simulation.invariants.two_phase import PreparedTransactionsEndAsDecided
from kavka.simulation.invariants.watermark import HighWatermarkOnlyGrows
from kavka.wire.stored.znodes import StateNode

T0 = TopicPartition("t", 0)


def led(broker: int, epoch: int = 0, mark: int = 0, end: int = 9, run: int = 1) -> ReplicaSeen:
    return ReplicaSeen(broker, run, T0, NO_TOPIC_ID, True, epoch, mark, 0, end)


def following(broker: int, end: int) -> ReplicaSeen:
    return ReplicaSeen(broker, 1, T0, NO_TOPIC_ID, False, 0, 0, 0, end)


def looked(*replicas: ReplicaSeen, isr: tuple[int, ...] = (1, 2)) -> ClusterObserved:
    return ClusterObserved(replicas, {T0: StateNode(1, 0, 1, list(isr))})


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


def sent(
    transaction: str, number: int, producer: str = "p", topic_partition: TopicPartition = T0
) -> Event:
    return SentInTransaction(
        transaction, "i", producer, topic_partition, value(transaction, number)
    )


def value(transaction: str, number: int) -> bytes:
    return f"i/{number}/{transaction}/".encode()


def shown(at_0: list[bytes], at_1: list[bytes], offset: int = 0) -> TransactionsAudited:
    return TransactionsAudited({T0: tuple(at_0), T1: tuple(at_1)}, {GROUP: offset})


def asked(transaction: str, offset: int) -> Event:
    return CommitRequested(transaction, GROUP, offset)


def ended(transaction: str, *, committed: bool) -> Event:
    return TransactionEnded(transaction, committed)


BOTH = [sent("a", 0), sent("a", 1, topic_partition=T1), asked("a", 2)]
"""A transaction of two partitions."""
TAKEN = [
    ProducerInitialized("i", "p", 7, 0),
    sent("a", 0, "p"),
    ProducerInitialized("i", "q", 7, 3),
]
"""One that is open when another producer takes the id over."""
MINE, NEXT, LATER = (PreparedTxnState(7, epoch) for epoch in (1, 2, 3))
PREPARED = [sent("a", 0), sent("a", 1, topic_partition=T1), Prepared("a", "i", MINE)]
TO_COMMIT, TO_ABORT = (Decided("i", MINE, committed) for committed in (True, False))
WHOLE, NOTHING = shown([value("a", 0)], [value("a", 1)], 2), shown([], [])
AUDIT = Audited(T0, 0, 1, ((0, b"a"),))
COMMITTED = Committed("g", "m", T0, 1, 1.0)

ONE, TWO, OTHER = Batch(0, 0, 0, 97), Batch(1, 1, 0, 98), Batch(1, 1, 1, 99)


def unclean(
    *lost: bytes, moved: tuple[bytes, ...] = (), end: int = 1, ready: tuple[int, ...] = ()
) -> UncleanElection:
    """In epoch 1 broker 2 is elected, whose log ends at `end`: `lost` and the batch `TWO` are not in it."""
    batches = frozenset({TWO}) if lost or moved else frozenset()
    first = end if not batches else 1
    return UncleanElection(
        T0, NO_TOPIC_ID, 2, 1, end, first, frozenset(lost), frozenset(moved), batches, ready
    )


def audited(*values: bytes) -> Audited:
    return Audited(T0, 0, len(values), tuple(enumerate(values)))


def acknowledged(offset: int, value: bytes) -> Event:
    return Acknowledged("p", T0, offset, value)


def logs(*batches: Batch, other: tuple[Batch, ...]) -> LogsAudited:
    return LogsAudited(T0, {1: batches, 2: other})


A_AND_B = [acknowledged(0, b"a"), acknowledged(1, b"b")]
READ_TWO = [Read("r", T0, 0, b"a"), Read("r", T0, 1, b"b")]
SENT = [Sent("p", T0, number, b"%c" % letter) for number, letter in enumerate(b"abc")]
DONE = [Processed("g", "m", T0, 0, b"a"), Committed("g", "m", T0, 2, 1.0)]
WATERMARK_5 = WatermarkSeen("r", T0, 5, 0)
EXCUSED: list[tuple[type[Invariant], list[Event]]] = [
    (AcknowledgedRecordsSurvive, [*A_AND_B, unclean(b"b"), audited(b"a", b"c")]),
    (
        AcknowledgedRecordsSurvive,
        [*A_AND_B, unclean(b"b"), acknowledged(1, b"c"), audited(b"a", b"c")],
    ),
    (AcknowledgedRecordsSurvive, [unclean(b"b"), *A_AND_B, audited(b"a")]),
    (
        AcknowledgedRecordsSurvive,
        [*A_AND_B, unclean(moved=(b"b",), end=3), audited(b"a", b"c", b"b")],
    ),
    (IdempotentProducersNeverDuplicate, [unclean(b"b"), audited(b"a", b"b", b"b")]),
    (RecordsKeepTheirOrder, [*SENT, unclean(b"b"), audited(b"a", b"c", b"b")]),
    (RecordsNeverChange, [*READ_TWO, unclean(b"b"), Read("q", T0, 1, b"c"), audited(b"a", b"c")]),
    (RecordsNeverChange, [unclean(b"b"), *READ_TWO, audited(b"a", b"c")]),
    (HighWatermarkOnlyGrows, [WATERMARK_5, unclean(b"b"), audited(b"a")]),
    (HighWatermarkOnlyGrows, [unclean(b"b"), WATERMARK_5, audited(b"a")]),
    (CommittedOffsetsStay, [COMMITTED, unclean(b"b"), CommittedSeen("g", T0, 0, 2.0)]),
    (CommittedRecordsWereProcessedOrDeleted, [*DONE, unclean(b"b"), audited(b"a", b"c")]),  # type: ignore[list-item]
    (CommittedLogsAreEqual, [batches(1, ONE, TWO), unclean(b"b"), batches(2, ONE, OTHER)]),
    (CommittedLogsAreEqual, [unclean(b"b"), batches(2, ONE, OTHER), batches(1, ONE, TWO)]),
    (
        CommittedLogsAreEqual,
        [batches(1, ONE, TWO), Deleted(T0, 2), unclean(), batches(2, ONE, OTHER)],
    ),
    (
        AcknowledgedRecordsSurvive,
        [*A_AND_B, Deleted(T0, 2), unclean(), acknowledged(1, b"c"), audited(b"a", b"c")],
    ),
    (
        RecordsNeverChange,
        [*READ_TWO, Deleted(T0, 2), unclean(), Read("r", T0, 1, b"c"), audited(b"a", b"c")],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [WATERMARK_5, EndOffsetRequested("r", T0), unclean(b"b"), EndOffsetRead("r", T0, 1, 1)],
    ),
]
"""Invariants that an unclean election excuses; without it, none of these holds."""
NOT_EXCUSED: list[tuple[type[Invariant], list[Event]]] = [
    (AcknowledgedRecordsSurvive, [*A_AND_B, unclean(b"b"), audited(b"c")]),
    (AcknowledgedRecordsSurvive, [*A_AND_B, unclean(), audited(b"a")]),
    (AcknowledgedRecordsSurvive, [unclean(b"b"), acknowledged(1, b"c"), audited(b"a")]),
    (AcknowledgedRecordsSurvive, [*A_AND_B, unclean(moved=(b"b",)), audited(b"a", b"c")]),
    (IdempotentProducersNeverDuplicate, [unclean(b"b"), audited(b"a", b"a")]),
    (RecordsKeepTheirOrder, [*SENT, unclean(b"b"), audited(b"c", b"a")]),
    (RecordsKeepTheirOrder, [*SENT, unclean(b"b"), audited(b"d")]),
    (RecordsNeverChange, [*READ_TWO, unclean(b"b"), audited(b"c")]),
    (HighWatermarkOnlyGrows, [WATERMARK_5, unclean(b"b", end=2), audited(b"a")]),
    (HighWatermarkOnlyGrows, [unclean(b"b"), WatermarkSeen("r", T0, 5, 1), audited(b"a")]),
    (CommittedOffsetsStay, [COMMITTED, unclean(), CommittedSeen("g", T0, 0, 2.0)]),
    (CommittedRecordsWereProcessedOrDeleted, [*DONE[1:], unclean(b"b"), audited(b"a", b"c")]),  # type: ignore[list-item]
    (CommittedLogsAreEqual, [batches(1, ONE, TWO), unclean(), batches(2, ONE, OTHER)]),
    (
        EndOfPartitionNeverGoesBack,
        [
            WATERMARK_5,
            EndOffsetRequested("r", T0),
            unclean(b"b", end=2),
            EndOffsetRead("r", T0, 1, 1),
        ],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [
            unclean(b"b"),
            WatermarkSeen("r", T0, 5, 1),
            EndOffsetRequested("r", T0),
            EndOffsetRead("r", T0, 1, 2),
        ],
    ),
]
"""Invariants that an unclean election does not excuse."""

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
        [EndOffsetRequested("r", T0), WatermarkSeen("q", T0, 5, 1), EndOffsetRead("r", T0, 4, 1)],
    ),
    (
        EndOfPartitionNeverGoesBack,
        [WatermarkSeen("q", T0, 5, 2), EndOffsetRequested("r", T0), EndOffsetRead("r", T0, 4, 1)],
    ),
    (ReplicasEndAlike, [logs(ONE, TWO, other=(ONE, TWO)), logs(ONE, TWO, other=(TWO,))]),
    (ReplicasEndAlike, [logs(ONE, TWO, other=())]),
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
        [WatermarkSeen("q", T0, 5, 1), EndOffsetRequested("r", T0), EndOffsetRead("r", T0, 4, 2)],
    ),
    (ReplicasEndAlike, [logs(ONE, TWO, other=(ONE, OTHER))]),
    (ReplicasEndAlike, [logs(ONE, TWO, other=(ONE,))]),
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


@pytest.mark.parametrize(("kind", "events"), EXCUSED)
def test_an_unclean_election_excuses_what_it_loses(
    kind: type[Invariant], events: list[Event]
) -> None:
    see(kind, events)
    with pytest.raises(Violation):
        see(kind, [event for event in events if not isinstance(event, UncleanElection)])


@pytest.mark.parametrize(("kind", "events"), NOT_EXCUSED)
def test_an_unclean_election_excuses_nothing_else(
    kind: type[Invariant], events: list[Event]
) -> None:
    with pytest.raises(Violation):
        see(kind, events)


ALONE = StateNode(2, 1, 1, [2])._replace(recovering=True)


def test_unclean_elections_are_for_the_topics_that_allow_them() -> None:
    StatesGoForward(unclean=["t"]).observe(written(ALONE, state(-1, 0, (1,))))
    with pytest.raises(Violation):
        StatesGoForward(unclean=["u"]).observe(written(ALONE, state(-1, 0, (1,))))
    with pytest.raises(Violation):
        StatesGoForward(unclean=["t"]).observe(
            written(ALONE._replace(in_sync_replicas=[2, 1]), state(-1, 0, (1, 3)))
        )


def test_an_unclean_election_beside_a_replica_in_sync_that_is_alive_is_refused() -> None:
    StatesGoForward(unclean=["t"]).observe(unclean(b"b"))
    with pytest.raises(Violation):
        StatesGoForward(unclean=["t"]).observe(unclean(b"b", ready=(1,)))


def test_a_follower_may_know_a_lower_high_watermark_but_shows_nothing_above_it() -> None:
    by_leader, by_follower = WatermarkSeen("r", T0, 5, 0), WatermarkSeen("r", T0, 3, 0, follower=2)
    see(HighWatermarkOnlyGrows, [by_leader, by_follower, Read("r", T0, 2, b"a"), by_leader])
    with pytest.raises(Violation):
        see(HighWatermarkOnlyGrows, [by_leader, by_follower, Read("r", T0, 3, b"a")])
    with pytest.raises(Violation):
        see(HighWatermarkOnlyGrows, [by_leader, WatermarkSeen("r", T0, 3, 0)])
    with pytest.raises(Violation):
        see(HighWatermarkOnlyGrows, [WatermarkSeen("r", T0, 3, 0, follower=2), audited(b"a")])


def test_every_invariant_of_clusters_is_seen_to_break_and_to_hold() -> None:
    alone = {type(invariant) for invariant in for_model(PROCESSES)}
    kinds = {type(invariant) for invariant in for_cluster(PROCESSES, two_phase=True)} - alone
    assert {kind for kind, _ in BREAKS} == kinds == {kind for kind, _ in HOLDS}


def test_replica_in_sync_may_be_short_while_its_loss_of_power_is_not_known() -> None:
    assert InSyncReplicasHaveWhatIsCommitted not in map(type, for_cluster(POWER))
