"""A follower's session, and a model of three replicas under elections: histories agree below the high watermark."""

from __future__ import annotations

from random import Random

import pytest

from kavka.core.fetch_session import FetchContext, FetchOutcome, FetchPartition, FetchSessionCache
from kavka.core.follower import (
    Append,
    FetchedPartition,
    FetchEpochEndOffset,
    FetchRecords,
    FollowedPartition,
    FollowerSession,
    RestartAt,
    Step,
    Truncate,
)
from kavka.core.partition import IsrChange, Partition, PartitionState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, TopicPartition
from kavka.storage.checkpoint.leader_epochs import LeaderEpochs
from kavka.values import replace

WHERE = TopicPartition("t", 0)
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))


class Node:
    """A broker: a log that survives, and the replication state that does not."""

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.records: list[tuple[int, int]] = []  # (epoch, value)
        self.epochs = LeaderEpochs()
        self.checkpoint = 0
        self.is_up = True
        self.followed: FollowedPartition | None = None
        self.pending: IsrChange | None = None
        self.partition = self.fresh()

    def fresh(self) -> Partition:
        end = len(self.records)
        self.checkpoint = min(self.checkpoint, end)
        return Partition(
            WHERE,
            self.broker_id,
            log_end_offset=end,
            high_watermark=self.checkpoint,
            max_lag_ms=10,
        )

    # core.follower.FollowedLog

    log_start_offset = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, len(self.records))


class World:
    """Three replicas, one controller whose requests arrive late, and what was ever committed."""

    def __init__(self, seed: int, *, is_checked_by_fetch: bool) -> None:
        self.rng = Random(seed)
        self.is_checked_by_fetch = is_checked_by_fetch
        self.nodes = {broker: Node(broker) for broker in BROKERS}
        self.now_ms = 0
        self.next_value = 0
        self.committed: list[tuple[int, int]] = []
        self.state = PartitionState(BrokerId(1), LeaderEpoch(0), 0, BROKERS, BROKERS)
        for node in self.nodes.values():
            self.leader_and_isr(node)

    def run(self, steps: int) -> None:
        actions = (self.produce, self.fetch, self.fetch, self.fetch, self.leader_and_isr_of_any)
        rare = (self.shrink, self.alter, self.alter, self.elect, self.crash, self.restart)
        for _ in range(steps):
            self.now_ms += self.rng.randrange(3)
            action = self.rng.choice(actions if self.rng.random() < 0.8 else rare)
            action(self.nodes[self.rng.choice(BROKERS)])
            self.check()

    def settle(self) -> None:
        """Heal everything: all logs become equal and everything is committed."""
        for node in self.nodes.values():
            self.restart(node)
        if self.state.leader < 0:
            self.elect(self.nodes[self.state.in_sync_replicas[0]])
        self.produce(self.nodes[self.state.leader])
        for _ in range(60):
            self.now_ms += 100
            for node in self.nodes.values():
                self.leader_and_isr(node)
                self.fetch(node)
                self.alter(node)
        self.check()

    # What happens

    def produce(self, node: Node) -> None:
        if node.is_up and node.partition.is_leader:
            node.records.append((node.partition.leader_epoch, self.next_value))
            self.next_value += 1
            node.epochs.assign(node.partition.leader_epoch, len(node.records) - 1)
            node.partition.appended(len(node.records), self.now_ms)

    def leader_and_isr_of_any(self, node: Node) -> None:
        if node.is_up:
            self.leader_and_isr(node)

    def leader_and_isr(self, node: Node) -> None:
        if node.partition.apply_state(self.state, self.now_ms) is not ErrorCode.NONE:
            return
        node.pending = None
        node.followed = None
        epoch = self.state.leader_epoch
        if node.partition.is_leader:
            node.epochs.assign(epoch, len(node.records))
        else:
            node.followed = FollowedPartition(
                node, epoch, is_checked_by_fetch=self.is_checked_by_fetch, max_backoff_ms=20
            )
            self.perform(node, node.followed.first_step(), [])

    def fetch(self, node: Node) -> None:
        followed = node.followed
        if followed is None or not node.is_up or node.partition.leader < 0:
            return
        leader = self.nodes[node.partition.leader]
        question = followed.next_request(self.now_ms)
        if not leader.is_up:
            return
        if isinstance(question, FetchEpochEndOffset):
            error = leader.partition.check_leader(question.leader_epoch)
            epoch, end = leader.end_offset_for(question.epoch)
            step = followed.epoch_end_offset_fetched(question, error, epoch, end, self.now_ms)
            self.perform(node, step, [])
        elif isinstance(question, FetchRecords):
            reply, records = self.serve(leader, node.broker_id, question)
            if self.rng.random() < 0.9:  # else the response is lost
                self.perform(node, followed.records_fetched(question, reply, self.now_ms), records)

    def serve(
        self, leader: Node, follower: BrokerId, asked: FetchRecords
    ) -> tuple[FetchedPartition, list[tuple[int, int]]]:
        partition = leader.partition
        error = partition.check_leader(asked.leader_epoch)
        if error is not ErrorCode.NONE:
            return FetchedPartition(error), []
        if asked.last_fetched_epoch >= 0:
            epoch, end = leader.end_offset_for(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                return FetchedPartition(ErrorCode.NONE, -1, 0, epoch, end), []
        assert asked.fetch_offset <= len(leader.records), "out of range without an unclean election"
        most = self.rng.randrange(1, 4)
        records = leader.records[asked.fetch_offset : asked.fetch_offset + most]
        high_watermark = partition.high_watermark
        _moved, change = partition.follower_fetched(follower, asked.fetch_offset, self.now_ms, 0)
        leader.pending = change or leader.pending
        return FetchedPartition(ErrorCode.NONE, high_watermark, 0), records

    def perform(self, node: Node, step: Step | None, records: list[tuple[int, int]]) -> None:
        match step:
            case Append():
                for epoch, value in records:
                    node.epochs.assign(epoch, len(node.records))
                    node.records.append((epoch, value))
                node.partition.follower_appended(len(node.records), step.high_watermark)
            case Truncate():
                del node.records[step.offset :]
                node.epochs.truncate_from_end(step.offset)
                node.partition.truncated(step.offset)
            case RestartAt():
                raise AssertionError("nothing is deleted in this world")

    def shrink(self, node: Node) -> None:
        if node.is_up:
            node.pending = node.partition.propose_shrink(self.now_ms) or node.pending

    def alter(self, node: Node) -> None:
        """Let the controller judge what a leader proposes; sometimes its response is lost."""
        change = node.pending
        if change is None or not node.is_up:
            return
        is_current = (change.leader_epoch, change.partition_epoch) == (
            self.state.leader_epoch,
            self.state.partition_epoch,
        ) and self.state.leader == node.broker_id
        if not is_current:
            node.pending = None
            node.partition.isr_change_failed(change, ErrorCode.FENCED_LEADER_EPOCH)
        elif all(self.nodes[broker].is_up for broker in change.in_sync_replicas):
            self.put(in_sync_replicas=change.in_sync_replicas)
            node.pending = None
            node.partition.isr_changed(
                change, change.in_sync_replicas, self.state.partition_epoch, self.now_ms
            )
        else:
            node.pending = None
            node.partition.isr_change_failed(change, ErrorCode.INELIGIBLE_REPLICA)

    def put(self, **changes: object) -> None:
        known = {"partition_epoch": self.state.partition_epoch + 1}
        self.state = replace(self.state, **{**known, **changes})

    def elect(self, node: Node) -> None:
        """Make a live member of the in-sync set leader; without one the partition has none."""
        alive = [b for b in self.state.in_sync_replicas if self.nodes[b].is_up]
        leader = node.broker_id if node.broker_id in alive else None
        if leader is None and alive:
            leader = alive[0]
        self.put(
            leader=BrokerId(-1) if leader is None else leader,
            leader_epoch=LeaderEpoch(self.state.leader_epoch + 1),
            in_sync_replicas=tuple(alive) or self.state.in_sync_replicas,
        )

    def crash(self, node: Node) -> None:
        if node.is_up:
            if self.rng.random() < 0.5:
                node.checkpoint = node.partition.high_watermark
            node.is_up = False
            node.followed = node.pending = None
            self.elect(self.nodes[self.rng.choice(BROKERS)])

    def restart(self, node: Node) -> None:
        if not node.is_up:
            node.is_up = True
            node.partition = node.fresh()
            if self.state.leader in (-1, node.broker_id):
                self.elect(node)
            self.leader_and_isr(node)

    # What must hold

    def check(self) -> None:
        for node in self.nodes.values():
            if node.is_up and node.partition.is_leader:
                high_watermark = node.partition.high_watermark
                self.committed += node.records[len(self.committed) : high_watermark]
        for node in self.nodes.values():
            if node.is_up:
                high_watermark = node.partition.high_watermark
                assert high_watermark <= len(self.committed)
                assert node.records[:high_watermark] == self.committed[:high_watermark]
            if node.broker_id in self.state.in_sync_replicas and self.state.leader >= 0:
                assert node.records[: len(self.committed)] == self.committed


@pytest.mark.slow
@pytest.mark.parametrize("is_checked_by_fetch", [True, False])
def test_replicas_agree_below_the_high_watermark_under_random_elections(
    is_checked_by_fetch: bool,
) -> None:
    for seed in range(200):
        world = World(seed, is_checked_by_fetch=is_checked_by_fetch)
        try:
            world.run(200)
            world.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        logs = [node.records for node in world.nodes.values()]
        assert logs[0] == logs[1] == logs[2] == world.committed, f"seed {seed}"


# The session


def wanted(offset: int) -> FetchPartition:
    return FetchPartition(offset, 1000, 0, 0, 0)


def test_session_names_partitions_once_and_then_what_changed() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.put(("b", 0), wanted(2))
    assert session.build()[:4] == (0, 0, {("a", 0): wanted(1), ("b", 0): wanted(2)}, [])
    assert session.response_received(1, ErrorCode.NONE, 7)
    session.put(("a", 0), wanted(1))
    session.put(("b", 0), wanted(3))
    session.put(("c", 0), wanted(4))
    assert session.build()[:4] == (7, 1, {("b", 0): wanted(3), ("c", 0): wanted(4)}, [])
    assert session.response_received(2, ErrorCode.NONE, 7)
    session.drop(("a", 0))
    assert session.build()[:4] == (7, 2, {}, [("a", 0)])


def test_partition_that_left_and_came_back_between_two_requests_is_not_mentioned() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    session.drop(("a", 0))
    session.put(("a", 0), wanted(1))
    assert session.build()[:4] == (7, 1, {}, [])


def test_lost_response_begins_a_session_in_place_of_the_old() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    session.build()
    session.lost()
    assert session.build()[:4] == (7, 0, {("a", 0): wanted(1)}, [])


def test_unknown_session_begins_a_new_one() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    assert not session.response_received(
        session.build().number, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0
    )
    assert session.build()[:4] == (0, 0, {("a", 0): wanted(1)}, [])


def test_leader_without_a_slot_gets_full_fetches() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    assert session.response_received(session.build().number, ErrorCode.NONE, 0)
    assert session.build()[:4] == (0, 0, {("a", 0): wanted(1)}, [])


def test_both_sides_of_a_session_hold_the_same_partitions() -> None:
    rng = Random(7)
    session, cache = FollowerSession(), FetchSessionCache(10)
    keys = [(f"t{n}", n) for n in range(5)]
    expected: dict[tuple[str, int], FetchPartition] = {}
    for now_ms in range(500):
        key = rng.choice(keys)
        if rng.random() < 0.3:
            session.drop(key)
            expected.pop(key, None)
        else:
            expected[key] = wanted(rng.randrange(3))
            session.put(key, expected[key])
        request = session.build()
        if rng.random() < 0.1:
            session.lost()
            continue
        context = cache.begin(
            request.session_id,
            request.session_epoch,
            request.partitions,
            request.forgotten,
            by_topic_id=False,
            is_follower=True,
            now_ms=now_ms,
        )
        if not isinstance(context, FetchContext):
            session.response_received(request.number, context, 0)
            continue
        found = dict(context.partitions())
        assert found == expected
        outcomes = {found_key: FetchOutcome(0, 1, 0, 0) for found_key in found}
        reply = context.finish(outcomes, now_ms + 1, now_ms)
        session.response_received(request.number, reply.error_code, reply.session_id)


def test_second_request_may_follow_before_the_response_to_the_first() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    first = session.build()
    session.put(("b", 0), wanted(2))
    second = session.build()
    assert (first.session_epoch, second.session_epoch) == (1, 2)
    assert second.partitions == {("b", 0): wanted(2)}
    assert session.response_received(first.number, ErrorCode.NONE, 7)
    assert session.response_received(second.number, ErrorCode.NONE, 7)
    assert session.build().session_epoch == 3


def test_response_from_before_a_new_session_does_not_count() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    first, second = session.build(), session.build()
    assert not session.response_received(first.number, ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    third = session.build()
    assert third[:2] == (7, 0)
    assert not session.response_received(second.number, ErrorCode.NONE, 7)
    assert session.response_received(third.number, ErrorCode.NONE, 8)


def test_response_is_read_as_what_its_request_asked() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    first = session.build()
    assert session.requested(("a", 0), first.number) == wanted(1)
    session.put(("a", 0), wanted(5))
    second = session.build()
    assert session.requested(("a", 0), first.number) is None
    assert session.requested(("a", 0), second.number) == wanted(5)
    session.drop(("a", 0))
    assert session.requested(("a", 0), second.number) is None


def test_partition_of_which_a_response_came_while_it_was_dropped_is_named_when_it_is_back() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.put(("b", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    second = session.build()
    session.drop(("a", 0))
    assert session.requested(("a", 0), second.number) is None
    session.put(("a", 0), wanted(1))
    assert session.build()[:4] == (7, 2, {("a", 0): wanted(1)}, [])
    third = session.build()
    session.drop(("a", 0))
    assert session.requested(("a", 0), third.number) is None
    assert session.build()[:4] == (7, 4, {}, [("a", 0)])


def test_partition_whose_response_was_an_error_is_named_again() -> None:
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    session.resend(("a", 0))
    assert session.build().partitions == {("a", 0): wanted(1)}
    session.resend(("a", 0))
    session.drop(("a", 0))
    assert session.build().forgotten == [("a", 0)]


def test_partition_of_which_a_response_came_too_late_is_named_again_when_nothing_is_on_its_way() -> (
    None
):
    session = FollowerSession()
    session.put(("a", 0), wanted(1))
    session.put(("b", 0), wanted(1))
    session.response_received(session.build().number, ErrorCode.NONE, 7)
    first = session.build()
    session.put(("a", 0), wanted(5))
    second = session.build()
    assert session.requested(("a", 0), first.number) is None
    assert session.requested(("a", 0), second.number) == wanted(5)
    assert not session.has_changes
    session.resend_superseded()
    assert session.build().partitions == {("a", 0): wanted(5)}
    session.resend_superseded()
    assert not session.has_changes
