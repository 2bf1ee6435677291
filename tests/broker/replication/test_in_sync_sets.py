"""What a leader does about in-sync sets that the controller refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from waiting import until

from kavka.errors import ErrorCode

Play = Callable[..., None]


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
        await until(lambda: sets.failures > 0)
        assert cluster.replica(1).partition.pending_isr == (1, 2)
        cluster.refuses = None
        await until(lambda: cluster.replica(1).partition.in_sync_replicas == (1, 2))

    play(story)


def test_what_too_few_replicas_have_is_neither_acknowledged_nor_shown(play: Play) -> None:
    """As Kafka since 3.7: the high watermark stands still below `min.insync.replicas`, so nothing is told as written
    that one more death would take."""

    async def story(cluster: Any) -> None:
        await cluster.start(1)  # the other is in sync, and has never fetched
        await cluster.order(1, isr=[1, 2], replicas=[1, 2])
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
            await cluster.tell(number)
        await until(lambda: replica.partition.high_watermark == 1)
        assert cluster.isr == [1, 2]

    play(story, replica__lag__time__max__ms="300")
