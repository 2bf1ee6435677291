"""The replication rules of one partition, leader and follower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.partition import FollowerActivity, IsrChange, Partition, PartitionState, Role
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def state(
    leader: BrokerId = ONE,
    epoch: int = 0,
    isr: tuple[BrokerId, ...] = (ONE, TWO, THREE),
    replicas: tuple[BrokerId, ...] = (ONE, TWO, THREE),
    topic_id: bytes = bytes(16),
) -> PartitionState:
    return PartitionState(
        leader, LeaderEpoch(epoch), epoch, isr, replicas, topic_id=TopicId(topic_id)
    )


def partition(min_insync_replicas: int = 1, **log: int) -> Partition:
    return Partition(TopicPartition("t", 0), ONE, min_insync_replicas=min_insync_replicas, **log)


def led(min_insync_replicas: int = 1, isr: tuple[BrokerId, ...] = (ONE, TWO, THREE)) -> Partition:
    leader = partition(min_insync_replicas)
    assert leader.apply_state(state(isr=isr), 0) is ErrorCode.NONE
    return leader


def test_lone_leader_moves_the_high_watermark_with_each_append() -> None:
    lone = partition()
    lone.apply_state(state(isr=(ONE,), replicas=(ONE,)), 0)
    assert lone.appended(10, 0)
    assert lone.high_watermark == 10
    assert lone.acknowledged(10, 0) is ErrorCode.NONE


def test_high_watermark_is_the_smallest_end_of_the_in_sync_replicas() -> None:
    leader = led()
    assert not leader.appended(10, 1)
    assert leader.follower_fetched(TWO, 10, 2) == (False, None)
    assert leader.acknowledged(7, 0) is None
    assert leader.follower_fetched(THREE, 7, 3) == (True, None)
    assert leader.high_watermark == 7
    assert leader.acknowledged(7, 0) is ErrorCode.NONE


def test_produce_that_outlives_its_leadership_is_refused() -> None:
    leader = led()
    leader.appended(10, 1)
    leader.apply_state(state(leader=TWO, epoch=1), 2)
    assert leader.acknowledged(10, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.apply_state(state(epoch=2, isr=(ONE,)), 3)
    assert leader.high_watermark == 10
    assert leader.acknowledged(10, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_produce_waits_on_when_its_leader_stays_the_leader() -> None:
    leader = led()
    leader.appended(10, 1)
    leader.apply_state(state(epoch=1, isr=(ONE, TWO)), 2)
    assert leader.acknowledged(10, 0) is None
    leader.follower_fetched(TWO, 10, 3)
    assert leader.acknowledged(10, 0) is ErrorCode.NONE


def test_silent_follower_leaves_the_set_and_the_high_watermark_moves() -> None:
    leader = led()
    leader.appended(10, 1)
    leader.follower_fetched(TWO, 10, 29_000)
    assert leader.propose_shrink(30_000) is None
    change = leader.propose_shrink(30_001)
    assert change == IsrChange((ONE, TWO), LeaderEpoch(0), 0, (-1, -1))
    assert leader.propose_shrink(30_002) is None
    assert leader.high_watermark == 0
    assert leader.isr_changed(change, (ONE, TWO), 1, 30_003)
    assert leader.high_watermark == 10


def test_follower_that_is_always_one_fetch_behind_stays_in_sync() -> None:
    leader = led(isr=(ONE, TWO))
    for n in range(1, 100):
        leader.appended(10 * n, 1000 * n)
        leader.follower_fetched(TWO, 10 * (n - 1), 1000 * n)
        assert leader.propose_shrink(1000 * n) is None


def test_follower_joins_the_set_when_it_reaches_high_watermark_and_epoch_start() -> None:
    leader = partition(log_end_offset=5)
    leader.apply_state(state(isr=(ONE,)), 0)
    assert leader.high_watermark == 5
    leader.appended(8, 100_000)
    assert leader.follower_fetched(TWO, 4, 100_000) == (False, None)
    moved, change = leader.follower_fetched(TWO, 8, 100_001)
    assert change == IsrChange((ONE, TWO), LeaderEpoch(0), 0, (-1, -1))
    assert not moved
    # Nothing is acknowledged that the one about to join lacks.
    assert not leader.appended(9, 100_002)
    leader.isr_changed(change, (ONE, TWO), 1, 100_003)
    assert leader.in_sync_replicas == (ONE, TWO)


def test_refused_change_is_dropped_or_sent_again() -> None:
    leader = led()
    leader.appended(1, 0)
    change = leader.propose_shrink(60_000)
    assert change is not None
    assert leader.isr_change_failed(change, ErrorCode.REQUEST_TIMED_OUT)
    assert not leader.isr_change_failed(change, ErrorCode.FENCED_LEADER_EPOCH)
    assert leader.propose_shrink(60_000) is None
    assert not leader.isr_change_failed(change, ErrorCode.INELIGIBLE_REPLICA)
    assert leader.propose_shrink(60_001) is not None


def test_response_to_a_change_of_an_older_epoch_is_dropped() -> None:
    leader = led()
    leader.appended(1, 0)
    change = leader.propose_shrink(60_000)
    assert change is not None
    leader.apply_state(state(epoch=1), 60_001)
    assert not leader.isr_changed(change, (ONE,), 9, 60_002)
    assert leader.in_sync_replicas == (ONE, TWO, THREE)


def test_too_few_in_sync_replicas_refuse_before_and_after_the_append() -> None:
    leader = led(min_insync_replicas=2, isr=(ONE, TWO))
    assert leader.acknowledged(0, 0) is ErrorCode.NONE
    leader.appended(1, 0)
    leader.follower_fetched(TWO, 1, 0)
    change = leader.propose_shrink(60_000)
    assert change is None
    leader.appended(2, 60_000)
    change = leader.propose_shrink(60_000)
    assert change is not None
    leader.isr_changed(change, (ONE,), 1, 60_001)
    assert not leader.has_enough_replicas
    assert leader.acknowledged(1, 0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert leader.high_watermark == 1


def test_min_insync_replicas_never_asks_for_more_than_there_are() -> None:
    lone = partition(min_insync_replicas=2)
    lone.apply_state(state(isr=(ONE,), replicas=(ONE,)), 0)
    assert lone.has_enough_replicas


def test_older_news_of_the_controller_is_refused() -> None:
    leader = led()
    assert leader.apply_state(state(epoch=0), 0) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert leader.apply_state(state(epoch=1, topic_id=b"a" * 16), 0) is ErrorCode.NONE
    assert (
        leader.apply_state(state(epoch=2, topic_id=b"b" * 16), 0) is ErrorCode.INCONSISTENT_TOPIC_ID
    )
    assert leader.leader_epoch == 1


def test_epochs_of_requests_are_judged() -> None:
    leader = led()
    leader.apply_state(state(epoch=3), 0)
    assert leader.check_leader(2) is ErrorCode.FENCED_LEADER_EPOCH
    assert leader.check_leader(4) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert leader.check_leader(3) is leader.check_leader() is ErrorCode.NONE
    leader.apply_state(state(leader=TWO, epoch=4), 0)
    assert leader.check_leader(4) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_takes_the_leaders_high_watermark_as_far_as_its_log_reaches() -> None:
    follower = partition()
    follower.apply_state(state(leader=TWO), 0)
    assert follower.role is Role.FOLLOWER
    assert follower.follower_appended(5, 9)
    assert follower.high_watermark == 5
    follower.truncated(3)
    assert (follower.high_watermark, follower.log_end_offset) == (3, 3)
    follower.restarted_at(100)
    assert follower.log_start_offset == follower.high_watermark == 100


def test_read_committed_stops_at_the_first_unstable_offset() -> None:
    lone = partition(log_end_offset=10)
    lone.apply_state(state(isr=(ONE,), replicas=(ONE,)), 0)
    lone.first_unstable_offset = 4
    assert lone.readable_end(read_committed=True) == 4
    assert lone.readable_end() == 10
    lone.first_unstable_offset = 12
    assert lone.readable_end(read_committed=True) == 10


def test_leader_does_not_delete_beyond_its_high_watermark() -> None:
    leader = led()
    leader.appended(10, 0)
    with pytest.raises(AssertionError):
        leader.log_start_moved(5)
    assert not leader.log_start_moved(0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "fetch2", "fetch3", "shrink", "adopt"]), st.integers(1, 20)
        ),
        max_size=60,
    )
)
def test_high_watermark_never_goes_back_nor_beyond_an_in_sync_replica(
    steps: list[tuple[str, int]],
) -> None:
    leader, now, pending = led(), 0, None
    ends = {TWO: 0, THREE: 0}
    for step, amount in steps:
        before, now = leader.high_watermark, now + 1000 * amount
        if step == "append":
            leader.appended(leader.log_end_offset + amount, now)
        elif step.startswith("fetch"):
            replica = TWO if step == "fetch2" else THREE
            ends[replica] = min(leader.log_end_offset, ends[replica] + amount)
            pending = leader.follower_fetched(replica, ends[replica], now)[1] or pending
        elif step == "shrink":
            pending = leader.propose_shrink(now) or pending
        elif pending is not None:
            leader.isr_changed(pending, pending.in_sync_replicas, leader.partition_epoch + 1, now)
            pending = None
        assert leader.high_watermark >= before
        for replica in ends:
            if replica in leader.in_sync_replicas:
                assert leader.high_watermark <= ends[replica]


def test_lag_does_not_begin_with_the_first_record_after_a_quiet_time() -> None:
    """Fetches name a quiet partition no more; its replica was in sync until the last of them."""
    leader = led(isr=(ONE, TWO))
    leader.follower_fetched(TWO, 0, 1)
    leader.followers[TWO].activity = FollowerActivity(100_000)
    leader.appended(10, 100_001)
    assert leader.propose_shrink(130_000) is None
    assert leader.propose_shrink(130_001) is not None


def test_replica_that_the_cluster_does_not_know_to_be_alive_is_not_proposed() -> None:
    leader = led(isr=(ONE,))
    assert leader.follower_fetched(TWO, 0, 1, is_alive=False) == (False, None)
    assert leader.propose_expansion((THREE,), 2) is None
    assert leader.propose_expansion((TWO, THREE), 2) == IsrChange(
        (ONE, TWO), LeaderEpoch(0), 0, (-1, -1)
    )


def test_replica_that_fetches_no_more_is_not_proposed() -> None:
    leader = led(isr=(ONE,))
    leader.follower_fetched(TWO, 0, 1, is_alive=False)
    assert leader.propose_expansion((TWO,), 30_002) is None


def test_low_watermark_waits_for_replicas_that_are_alive() -> None:
    leader, alive = led(), {ONE, TWO, THREE}
    leader.is_alive = alive.__contains__
    leader.follower_fetched(TWO, 0, 1, log_start_offset=0)
    assert leader.low_watermark() == -1
    alive.remove(THREE)
    assert leader.low_watermark() == 0
    leader.appended(5, 2)
    leader.follower_fetched(TWO, 5, 3, log_start_offset=4)
    leader.follower_fetched(THREE, 5, 3, log_start_offset=3)
    leader.log_start_moved(5)
    assert leader.low_watermark() == 4
    alive.add(THREE)
    assert leader.low_watermark() == 3


def test_follower_that_died_holds_the_high_watermark_back_only_while_it_is_in_sync() -> None:
    leader = led(isr=(ONE, TWO))
    leader.follower_fetched(THREE, 0, 1, is_alive=False)
    leader.is_alive = lambda broker: broker != THREE
    leader.appended(10, 2)
    assert leader.follower_fetched(TWO, 10, 3) == (True, None)
    assert leader.high_watermark == 10


def test_in_sync_broker_that_is_no_replica_is_proposed_away() -> None:
    leader = partition()
    leader.apply_state(state(isr=(ONE, TWO, THREE), replicas=(ONE, TWO)), 0)
    leader.follower_fetched(TWO, 0, 1)
    change = leader.propose_shrink(2)
    assert change is not None
    assert change.in_sync_replicas == (ONE, TWO)


def test_broker_that_is_not_in_sync_does_not_lead() -> None:
    replica = partition()
    assert replica.apply_state(state(isr=(TWO,)), 0) is ErrorCode.INVALID_REQUEST
    assert replica.role is Role.NONE
    assert replica.apply_state(state(), 0) is ErrorCode.NONE


def test_leader_may_be_deposed_unheard_while_another_is_in_sync_or_may_be_already() -> None:
    assert led().may_be_replaced
    leader = led(isr=(ONE,))
    assert not leader.may_be_replaced
    _, change = leader.follower_fetched(TWO, 0, 1)
    assert change is not None
    assert leader.may_be_replaced, "the controller may have made it the leader since"
    assert not leader.isr_change_failed(change, ErrorCode.INELIGIBLE_REPLICA)
    assert not leader.may_be_replaced
