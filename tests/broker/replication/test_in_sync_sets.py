"""A leader with in-sync sets that the controller refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_partition import AlterPartitionRequest
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from support.waiting import until

Play = Callable[..., None]
TOPIC_ID = b"0123456789abcdef"


@pytest.mark.parametrize(
    "refusal", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_set_of_a_topic_that_the_controller_does_not_know_yet_is_proposed_again(
    play: Play, refusal: ErrorCode
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        cluster.refuses = refusal
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        sets = cluster.brokers[1].replication_manager.alter_partition_manager
        await until(lambda: sets.failures > 0)
        assert cluster.replica(1).partition.pending_isr == (1, 2)
        cluster.refuses = None
        await until(lambda: cluster.replica(1).partition.in_sync_replicas == (1, 2))

    play(story)


@pytest.mark.slow
def test_what_too_few_replicas_have_is_neither_acknowledged_nor_shown(play: Play) -> None:
    """As Kafka since 3.7: the high watermark stands still below `min.insync.replicas`.

    So nothing is acknowledged that one more death would take.
    """

    async def story(cluster: Any) -> None:
        await cluster.start(1)  # the other is in sync, and has never fetched
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        replica = cluster.replica(1)
        replica.partition.min_insync_replicas = 2
        waiting = asyncio.ensure_future(cluster.produce(1, b"a", timeout_ms=1_000))
        await until(lambda: replica.partition.in_sync_replicas == (1,))
        refused = await cluster.produce(1, b"b")
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (replica.log.log_end_offset, replica.partition.high_watermark) == (1, 0)
        await cluster.start(2)
        for number in (1, 2):
            await cluster.send_state(number)
        await until(lambda: replica.partition.high_watermark == 1)
        assert cluster.isr == [1, 2]

    play(story, replica__lag__time__max__ms="300")


async def lose_the_follower(cluster: Any) -> asyncio.Future[Any]:
    """Let it end before it has what is written now; return the response to come."""
    await cluster.stop(2)
    return asyncio.ensure_future(cluster.produce(1, b"a"))


def test_a_refused_proposal_holds_nothing_back(play: Play) -> None:
    """All replicas in sync have written the record that waited for the proposed one."""

    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        is_asked, may_answer = asyncio.Event(), asyncio.Event()

        async def slowly(request: Any) -> Any:
            is_asked.set()
            await may_answer.wait()
            cluster.refuses = ErrorCode.INELIGIBLE_REPLICA
            return await cluster.alter_partition(request)

        cluster.brokers[1].replication_manager.controller.local = slowly
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        await is_asked.wait()
        response = await lose_the_follower(cluster)
        partition = cluster.replica(1).partition
        await until(lambda: partition.log_end_offset == 1)
        partition.max_lag_ms = 0  # it was caught up until now, and is not taken for it any more
        may_answer.set()
        assert (await response).error_code == ErrorCode.NONE

    play(story)


def test_a_follower_that_is_not_in_sync_and_gone_blocks_nothing_without_limit(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        cluster.refuses = ErrorCode.INELIGIBLE_REPLICA
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        await until(
            lambda: cluster.brokers[1].replication_manager.alter_partition_manager.failures > 0
        )
        response = await lose_the_follower(cluster)
        assert (await response).error_code == ErrorCode.NONE

    play(story, replica__lag__time__max__ms="600")


async def lead_both(cluster: Any) -> list[Any]:
    """Let broker 1 lead `t-0` and `t-1`, with broker 2 in sync, which never fetches; return both replicas."""
    await cluster.start(1)
    cluster.refuses = ErrorCode.NOT_CONTROLLER
    await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
    states = [
        LeaderAndIsrRequestPartition(
            partition_index=1, leader=1, leader_epoch=0, isr=[1, 2], replicas=[1, 2], is_new=True
        )
    ]
    topic = LeaderAndIsrRequestTopic(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1000, topic_states=[topic])
    await cluster.brokers[1].control_requests.leader_and_isr(request)
    return [cluster.replica(1, TopicPartition("t", partition)) for partition in (0, 1)]


def test_leader_whose_disk_has_failed_proposes_nothing(play: Play, tmp_path: Path) -> None:
    """Alone in the set, it would be the only one that may be elected."""

    async def story(cluster: Any) -> None:
        failed, sound = await lead_both(cluster)
        assert failed.log.directory is not sound.log.directory
        failed.log.directory.fail(OSError("the disk is gone"))
        await until(lambda: sound.partition.pending_isr == (1,))
        assert failed.partition.pending_isr is None

    two = f"{tmp_path}/one,{tmp_path}/two"
    play(story, log__dirs=two, replica__lag__time__max__ms="100")


def test_proposal_of_a_leader_whose_disk_fails_is_not_sent_again(
    play: Play, tmp_path: Path
) -> None:
    async def story(cluster: Any) -> None:
        failed, sound = await lead_both(cluster)
        asked: list[int] = []

        async def unreachable(request: AlterPartitionRequest) -> None:
            named = [p.partition_index for topic in request.topics for p in topic.partitions]
            asked[:] = sorted(named)
            raise ConnectionError("no controller")

        cluster.brokers[1].replication_manager.controller.local = unreachable
        await until(lambda: asked == [0, 1])
        failed.log.directory.fail(OSError("the disk is gone"))
        await until(lambda: asked == [1])
        assert sound.partition.pending_isr == (1,)

    two = f"{tmp_path}/one,{tmp_path}/two"
    play(story, log__dirs=two, replica__lag__time__max__ms="100")
