"""Throttles hold replicas back that are not in sync, on either side, until the rate is raised (KIP-73)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.replication.throttle import Throttle
from support.waiting import until

Play = Callable[..., None]
TOPIC_ID = b"0123456789abcdef"


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def tick_ms(self) -> int:
        return self.ms

    def work_ns(self) -> int:
        return self.tick_ms() * 1_000_000

    def now_ms(self) -> int:
        return self.ms


def is_exceeded(throttle: Throttle) -> bool:
    return throttle.is_exceeded


def test_rate_counts_a_whole_second_at_least() -> None:
    clock = Ticks()
    throttle = Throttle(clock, lambda: 1000)
    throttle.record(1000)
    assert not is_exceeded(throttle)
    throttle.record(1)
    assert is_exceeded(throttle)
    clock.ms = 1001
    assert not is_exceeded(throttle)


def test_old_samples_do_not_count() -> None:
    clock = Ticks()
    throttle = Throttle(clock, lambda: 1000)
    throttle.record(50_000)
    clock.ms = 10_999
    assert is_exceeded(throttle)
    clock.ms = 11_000
    assert not is_exceeded(throttle)


@pytest.mark.parametrize(("side", "slow"), [("leader", 1), ("follower", 2)])
def test_new_replica_is_held_back_until_the_rate_is_raised(
    play: Play, side: str, slow: int
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        for broker in cluster.brokers.values():
            broker.context.effective_configs.put_topic(
                "t", {f"{side}.replication.throttled.replicas": "*"}, TOPIC_ID
            )
        configs = cluster.brokers[slow].context.effective_configs
        configs.put_broker({f"{side}.replication.throttled.rate": "1"}, default=False)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        for _ in range(20):
            await cluster.produce(1, b"x" * 2000, acks=1)
        await cluster.send_state(2)
        throttle = getattr(cluster.brokers[slow].replication_manager, f"{side}_throttle")
        await until(lambda: throttle.is_exceeded)
        held = cluster.replica(2).log.log_end_offset
        assert held < 20
        assert cluster.isr == [1]
        configs.put_broker({}, default=False)
        await cluster.until_equal(1, 2)
        await until(lambda: cluster.isr == [1, 2])

    play(story, replica__fetch__max__bytes="1000")


def test_replica_that_is_in_sync_is_never_held_back(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        cluster.brokers[1].context.effective_configs.put_topic(
            "t", {"leader.replication.throttled.replicas": "*"}, TOPIC_ID
        )
        cluster.brokers[1].context.effective_configs.put_broker(
            {"leader.replication.throttled.rate": "1"}, default=False
        )
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        for _ in range(5):
            assert (await cluster.produce(1, b"x" * 2000)).error_code == 0

    play(story)


async def follow_throttled(cluster: Any) -> None:
    """Let broker 2 follow broker 1, in sync, and fetch a byte a second of what counts."""
    await cluster.start(1, 2)
    configs = cluster.brokers[2].context.effective_configs
    configs.put_topic("t", {"follower.replication.throttled.replicas": "*"}, TOPIC_ID)
    configs.put_broker({"follower.replication.throttled.rate": "1"}, default=False)
    await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])


def test_follower_that_is_in_sync_never_holds_itself_back(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await follow_throttled(cluster)
        for _ in range(5):
            assert (await cluster.produce(1, b"x" * 2000, timeout_ms=5000)).error_code == 0
        assert cluster.brokers[2].replication_manager.follower_throttle.is_exceeded

    play(story)


def test_follower_that_is_in_sync_does_not_hold_itself_back_in_a_new_leader_epoch(
    play: Play,
) -> None:
    """Its leader has not returned a high watermark in this epoch yet: the end of a reassignment begins one."""

    async def story(cluster: Any) -> None:
        await follow_throttled(cluster)
        assert (await cluster.produce(1, b"x" * 2000, timeout_ms=5000)).error_code == 0
        assert cluster.brokers[2].replication_manager.follower_throttle.is_exceeded
        await cluster.leader_and_isr(1)
        assert (await cluster.produce(1, b"x" * 2000, timeout_ms=5000)).error_code == 0

    play(story)
