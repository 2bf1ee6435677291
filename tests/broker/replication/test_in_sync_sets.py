"""What a leader does about in-sync sets that the controller refuses."""

from __future__ import annotations

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
