"""What a leader does about in-sync sets that the controller refuses."""

from __future__ import annotations

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
        await cluster.order(1, isr=[1], replicas=[1, 2])
        sets = cluster.brokers[1].replicas.replication.in_sync_sets
        await cluster.until(lambda: sets.failures > 0)
        assert cluster.replica(1).partition.pending_isr == (1, 2)
        cluster.refuses = None
        await cluster.until(lambda: cluster.replica(1).partition.in_sync_replicas == (1, 2))

    play(story)


async def lead_both(cluster: Any) -> list[Any]:
    """Let broker 1 lead `t-0` and `t-1`, with broker 2 in sync, which never fetches; return both replicas."""
    await cluster.start(1)
    cluster.refuses = ErrorCode.NOT_CONTROLLER
    await cluster.order(1, isr=[1, 2], replicas=[1, 2])
    states = [
        LeaderAndIsrRequestPartition(
            partition_index=1, leader=1, leader_epoch=0, isr=[1, 2], replicas=[1, 2], is_new=True
        )
    ]
    topic = LeaderAndIsrRequestTopic(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1000, topic_states=[topic])
    await cluster.brokers[1].orders.leader_and_isr(request)
    return [cluster.replica(1, TopicPartition("t", partition)) for partition in (0, 1)]


def test_leader_whose_disk_has_failed_proposes_nothing(play: Play, tmp_path: Path) -> None:
    """Alone in the set, it would be the only one that may be elected."""

    async def story(cluster: Any) -> None:
        failed, sound = await lead_both(cluster)
        assert failed.log.directory is not sound.log.directory
        failed.log.directory.fail(OSError("the disk is gone"))
        await cluster.until(lambda: sound.partition.pending_isr == (1,))
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

        cluster.brokers[1].replicas.replication.controller.local = unreachable
        await cluster.until(lambda: asked == [0, 1])
        failed.log.directory.fail(OSError("the disk is gone"))
        await cluster.until(lambda: asked == [1])
        assert sound.partition.pending_isr == (1,)

    two = f"{tmp_path}/one,{tmp_path}/two"
    play(story, log__dirs=two, replica__lag__time__max__ms="100")
