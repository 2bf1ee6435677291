"""Internal topics get the replicas that the settings ask for, or are not made (KIP-115)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.metadata.cache import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.stored import znodes

Run = Callable[..., None]
Cluster = Any


@pytest.mark.parametrize(("kind", "topic"), [(0, OFFSETS_TOPIC), (1, TRANSACTIONS_TOPIC)])
@pytest.mark.parametrize("asked", [1, 2])
def test_a_coordinator_that_is_asked_for_too_early_is_there_when_enough_brokers_are(
    run: Run, kind: int, topic: str, asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])

        async def code() -> ErrorCode:
            return ErrorCode.of((await cluster.send(asked, request)).coordinators[0].error_code)

        assert await code() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        (said,) = [m for m in caplog.messages if "internal topic not created" in m]
        assert "larger than available brokers: 2" in said
        assert "replication.factor" in said.partition("setting=")[2]
        assert topic not in (cluster.znode_server.tree.children(znodes.TOPICS) or [])
        await cluster.start(3)
        while await code() is not ErrorCode.NONE:
            await cluster.until(lambda: len(cluster.brokers[asked].metadata.brokers) == 3)
        await cluster.until(lambda: cluster.in_sync(TopicPartition(topic, 0)) == {1, 2, 3})

    run(
        story,
        brokers=2,
        offsets__topic__replication__factor="3",
        transaction__state__log__replication__factor="3",
        transaction__state__log__num__partitions="2",
    )
