"""Random lives of a group shard: invariants hold, and the log alone gives the durable state again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kavka.core.group.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteGroup,
    DeleteOffsets,
    DeleteTopicsOffsets,
    Event,
    FetchOffsets,
    FetchOffsetsReply,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    ListedGroup,
    OffsetToCommit,
    Sync,
    SyncReply,
)
from kavka.core.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    PendingOffsetRecord,
    Record,
    StoredGroup,
    StoredMember,
    TransactionEnd,
)
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.group.step import GroupDecision
from kavka.core.group.stored import CONFIRMATION, from_bytes, to_bytes
from kavka.core.machine import Decision
from kavka.errors import ErrorCode

SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=500,
    max_size=3,
    offsets_retention_ms=30_000,
    retention_check_interval_ms=5_000,
)
PRODUCERS = [7, 8]
ERRORS = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
]


class World:
    """Drives a shard as a shell with a slow log, and checks what must hold after every step."""

    def __init__(self) -> None:
        self.shard = GroupShard(SETTINGS)
        self.shard.loaded(0)
        self.now_ms = 0
        self.log: list[Record] = []
        self.under_way: list[GroupDecision] = []
        self.asked: dict[int, str] = {}
        self.known: list[tuple[str, str | None, int]] = [("", None, -1)]
        self.tokens = 0

    def ask(self, make: Callable[[int], Event]) -> None:
        self.tokens += 1
        event = make(self.tokens)
        if not isinstance(event, DeleteTopicsOffsets):
            self.asked[self.tokens] = type(event).__name__
        self.take(self.shard.handle(event, self.now_ms))

    def take(self, decision: GroupDecision) -> None:
        if decision.records:
            self.under_way.append(decision)
        else:
            self.answer(decision)
        self.shard.check()

    def answer(self, decision: GroupDecision) -> None:
        for effect in decision.effects:
            assert self.asked.pop(effect.token, None) is not None, "no token is answered twice"
            if isinstance(effect.reply, JoinReply) and effect.reply.member_id:
                self.known.append((effect.reply.member_id, None, effect.reply.generation_id))

    def commit(self) -> None:
        if self.under_way:
            decision = self.under_way.pop(0)
            for record in decision.records:
                self.shard.apply(record)
                self.log.append(record)
            self.answer(decision)
            self.shard.check()

    def refuse(self, error: ErrorCode) -> None:
        """The newest fails: what was appended before it is still on its way. A marker is there, or is not."""
        if self.under_way and not isinstance(self.under_way[-1].records[0], TransactionEnd):
            decision = self.under_way.pop()
            self.take(self.shard.failed(decision, error, self.now_ms))

    def mark(self, producer_id: int, *, committed: bool) -> None:
        self.take(Decision((TransactionEnd(producer_id, committed),)))

    def tick(self) -> None:
        for _ in range(10_000):
            deadline = self.shard.deadline_ms()
            if deadline is None or deadline > self.now_ms:
                return
            self.take(self.shard.tick(self.now_ms))
        pytest.fail("time stands still")

    def listed(self) -> list[ListedGroup]:
        listed = self.shard.list()
        assert isinstance(listed, list)
        return listed

    def replayed(self) -> GroupShard:
        fresh = GroupShard(SETTINGS)
        for record in self.log:
            fresh.apply(record)
        return fresh


def event(dice: Random, world: World) -> Callable[[int], Event]:
    group = dice.choice(["g", "h", ""])
    member, instance, generation = dice.choice(world.known[-6:])
    if dice.randint(0, 9) == 0:
        instance = dice.choice(["i1", "i2"])
    kind = dice.randint(0, 17)
    protocols = dice.choice(
        [("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("sticky",)]
    )
    topic = dice.choice(["t", "u"])
    if kind <= 5:
        static = dice.choice([None, None, "i1", "i2"])
        member_id = member if static is None else ""
        known = dice.random() < 0.5
        subscription = b"\0\1\0\0\0\1\0\1" + topic.encode()
        return lambda token: Join(
            token, group, 6_000, 4_000, member_id, static, "consumer",
            tuple((p, subscription) for p in protocols), "c", "/h", f"m{token}", known, known,
        )  # fmt: skip
    if kind <= 9:
        assignment = ((member, b"x"),)
        return lambda token: Sync(
            token, group, generation, member, instance, "consumer", None, assignment
        )
    if kind == 10:
        return lambda token: Heartbeat(token, group, generation, member, instance)
    if kind == 11:
        return lambda token: Leave(
            token, group, (LeavingMember(member, instance), LeavingMember("", "i1"))
        )
    if kind == 12:
        return lambda token: DeleteOffsets(token, group, ((topic, 0), ("u", 1)))
    if kind == 13:
        return lambda token: (
            DeleteGroup(token, group) if token % 3 else DeleteTopicsOffsets((topic,))
        )
    if kind <= 15:
        return lambda token: CommitOffsets(
            token,
            group,
            generation,
            member,
            instance,
            (OffsetToCommit(topic, 0, token), OffsetToCommit("u", 1, token)),
        )
    producer_id = dice.choice(PRODUCERS)
    if dice.random() < 0.7:
        member, instance, generation = "", None, -1
    return lambda token: CommitOffsetsInTransaction(
        token,
        group,
        producer_id,
        0,
        generation,
        member,
        instance,
        (OffsetToCommit(topic, 0, token), OffsetToCommit("u", 1, token)),
    )


@pytest.mark.parametrize("first_seed", range(0, 1000, 100))
def test_random_lives_keep_the_invariants_and_the_law(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        try:
            live(Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def live(dice: Random) -> None:
    world = World()
    for _ in range(dice.randint(1, 80)):
        action = dice.randint(0, 9)
        if action <= 4:
            world.ask(event(dice, world))
        elif action == 5:
            world.mark(dice.choice(PRODUCERS), committed=dice.random() < 0.5)
        elif action <= 7:
            world.commit()
        elif action == 8:
            world.now_ms += dice.choice([100, 1_000, 5_000, 40_000])
            world.tick()
        else:
            world.refuse(dice.choice(ERRORS))
        assert world.replayed().durable() == world.shard.durable()
    finish(world)


def finish(world: World) -> None:
    """Nothing waits without limit: with a working log and time that passes, all requests are answered."""
    for producer_id in PRODUCERS:
        world.mark(producer_id, committed=True)
    for _ in range(200):
        while world.under_way:
            world.commit()
        world.now_ms += 100_000
        world.tick()
        if not world.asked and not world.under_way:
            break
    assert not world.asked
    assert "Dead" not in {group.state for group in world.listed()}, "a removed group is gone"
    restarted = world.replayed()
    assert restarted.durable() == world.shard.durable()
    assert not any(undecided for _, _, undecided in restarted.durable().values())
    restarted.loaded(world.now_ms)
    restarted.check()


RECORDS: list[Record] = [
    OffsetRecord("g", "t", 3, CommittedOffset(5, 2, "note", 1000)),
    OffsetRecord("g", "t", 3, CommittedOffset(5, -1, "", 1000, 2000)),
    OffsetRecord("g", "t", 3, None),
    GroupRecord("g", None),
    GroupRecord("g", StoredGroup("consumer", 4, None, None, 77)),
    GroupRecord(
        "g",
        StoredGroup(
            "consumer", 4, "range", "m", 77, (StoredMember("m", "i", "c", "/h", 1, 2, b"s", b"a"),)
        ),
    ),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_records_survive_their_bytes(record: Record) -> None:
    assert from_bytes(*to_bytes(record)) == record


def test_a_commit_inside_a_transaction_has_the_bytes_of_one_outside() -> None:
    value = CommittedOffset(5, 2, "note", 1000)
    pending = PendingOffsetRecord("g", "t", 3, value, 7, 0)
    assert to_bytes(pending) == to_bytes(OffsetRecord("g", "t", 3, value))


def test_records_of_other_kinds_of_groups_are_skipped() -> None:
    assert from_bytes(b"\0\3\0\1g", b"\0\0") is None


def test_loading_shard_sends_away_all_but_heartbeats() -> None:
    shard = GroupShard(SETTINGS)
    [join] = shard.handle(
        Join(1, "g", 6000, 6000, "", None, "consumer", (("range", b""),), "c", "/h", "m1"), 0
    ).effects
    [heartbeat] = shard.handle(Heartbeat(2, "g", 1, "m"), 0).effects
    [sync] = shard.handle(Sync(3, "g", 1, "m"), 0).effects
    [fetch] = shard.handle(FetchOffsets(4, "g", None), 0).effects
    assert isinstance(join.reply, JoinReply)
    assert join.reply.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heartbeat.reply == HeartbeatReply(ErrorCode.NONE)
    assert sync.reply == SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    assert fetch.reply == FetchOffsetsReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert shard.list() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("error", "replied"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_offsets_that_the_log_does_not_confirm_are_not_returned(
    error: ErrorCode, replied: ErrorCode
) -> None:
    shard = GroupShard(SETTINGS)
    shard.apply(OffsetRecord("g", "t", 3, CommittedOffset(5)))
    shard.loaded(0)
    asked = shard.handle(FetchOffsets(4, "g", None, require_stable=True), 0)
    assert (asked.records, asked.must_confirm) == ((), True)
    assert asked.effects[0].reply.partitions[0][2].offset == 5
    refused = shard.failed(asked, error, 0)
    assert (refused.records, [effect.reply for effect in refused.effects]) == (
        (),
        [FetchOffsetsReply(replied)],
    )


def test_offsets_need_no_confirmation_where_any_will_do_or_none_is_stable() -> None:
    shard = GroupShard(SETTINGS)
    shard.apply(OffsetRecord("g", "t", 3, CommittedOffset(5)))
    shard.apply(PendingOffsetRecord("g", "t", 3, CommittedOffset(6), 1000, 0))
    shard.loaded(0)
    assert not shard.handle(FetchOffsets(4, "g", None), 0).must_confirm
    assert not shard.handle(FetchOffsets(5, "g", None, require_stable=True), 0).must_confirm


def test_a_confirmation_is_the_tombstone_of_an_offset_that_no_group_has() -> None:
    loaded = from_bytes(CONFIRMATION, None)
    assert loaded == OffsetRecord("", "", -1, None)
    shard = GroupShard(SETTINGS)
    shard.apply(OffsetRecord("g", "t", 3, CommittedOffset(5)))
    shard.apply(loaded)
    shard.loaded(0)
    [known] = shard.handle(FetchOffsets(4, "g", None), 0).effects
    assert [(row[0], row[1]) for row in known.reply.partitions] == [("t", 3)]
    assert [group.group_id for group in shard.list()] == ["g"]


def test_groups_are_listed_by_state_and_type() -> None:
    shard = GroupShard(SETTINGS)
    shard.apply(RECORDS[0])
    shard.apply(
        GroupRecord(
            "h",
            StoredGroup(
                "consumer",
                4,
                "range",
                "m",
                7,
                (StoredMember("m", None, "c", "/h", 1, 9, b"", b""),),
            ),
        )
    )
    shard.loaded(0)

    def names(**filters: list[str]) -> list[str]:
        listed = shard.list(**filters)
        assert isinstance(listed, list)
        return [group.group_id for group in listed]

    assert names() == ["g", "h"]
    assert names(states=["empty"]) == ["g"]
    assert names(states=["STABLE"], types=["Classic"]) == ["h"]
    assert names(types=["consumer"]) == []


def test_deleted_topics_take_their_offsets_with_them() -> None:
    shard = GroupShard(SETTINGS)
    shard.apply(OffsetRecord("g", "t", 3, CommittedOffset(5)))
    shard.apply(OffsetRecord("g", "u", 3, CommittedOffset(5)))
    shard.apply(OffsetRecord("h", "t", 0, CommittedOffset(5)))
    shard.handle(DeleteTopicsOffsets(("u",)), 0)
    shard.loaded(0)
    shard.handle(DeleteTopicsOffsets(("t",)), 0)
    removed = []
    while shard.deadline_ms() != SETTINGS.retention_check_interval_ms:
        decision = shard.tick(0)
        for record in decision.records:
            shard.apply(record)
        removed.append(decision.records)
    assert [rows for rows in removed if rows] == [
        (OffsetRecord("g", "u", 3, None),),
        (OffsetRecord("g", "t", 3, None),),
        (OffsetRecord("h", "t", 0, None),),
    ]
    assert shard.durable() == {}
    assert shard.list() == []


def test_a_rebalance_timeout_of_nothing_does_not_stop_the_clock() -> None:
    world = World()

    def join(instance: str, member_id: str, timeout_ms: int) -> Callable[[int], Event]:
        return lambda token: Join(
            token, "g", 6_000, timeout_ms, member_id, instance, "consumer", (("range", b""),),
            "c", "/h", f"m-{instance}", False, False,
        )  # fmt: skip

    def sync(generation: int) -> Callable[[int], Event]:
        return lambda token: Sync(token, "g", generation, "m-i1", "i1", None, None, ())

    world.ask(join("i1", "", 4_000))
    world.now_ms = 500
    world.tick()
    world.ask(sync(1))
    world.commit()
    world.ask(join("i1", "m-i1", 0))
    world.ask(sync(2))
    world.commit()
    world.ask(join("i2", "", 0))
    world.ask(lambda token: Leave(token, "g", (LeavingMember("", "i2"),)))
    world.tick()
    (group,) = world.listed()
    assert group.state == "PreparingRebalance"
