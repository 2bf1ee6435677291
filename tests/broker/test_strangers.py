"""A broker with a registry of its own has no controller but itself: orders by the network are a stranger's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.alter_partition import AlterPartitionRequest
from kavka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopicState,
)
from kavka.wire.messages.update_metadata import UpdateMetadataRequest

Run = Callable[..., None]
NEWEST = 2**31 - 1


def stop_of_t(broker_id: int) -> StopReplicaRequest:
    state = StopReplicaRequestPartition(partition_index=0, leader_epoch=-2, delete_partition=True)
    topic = StopReplicaRequestTopicState(topic_name="t", partition_states=[state])
    return StopReplicaRequest(
        controller_id=broker_id, controller_epoch=NEWEST, topic_states=[topic]
    )


ORDERS = {
    "StopReplica": stop_of_t,
    "LeaderAndIsr": lambda own: LeaderAndIsrRequest(controller_id=own, controller_epoch=NEWEST),
    "UpdateMetadata": lambda own: UpdateMetadataRequest(controller_id=own, controller_epoch=NEWEST),
    "ControlledShutdown": lambda own: ControlledShutdownRequest(broker_id=own, broker_epoch=-1),
    "AlterPartition": lambda own: AlterPartitionRequest(broker_id=own, broker_epoch=-1),
}


@pytest.mark.parametrize("name", list(ORDERS))
def test_an_order_of_a_stranger_is_refused_and_changes_nothing(run: Run, name: str) -> None:
    async def story(served: Any) -> None:
        await served.create("t")
        assert (await served.produce("t", b"kept")).error_code == 0
        order = ORDERS[name](served.broker.broker_id)
        response = await served.send(order)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [record.value for record in await served.read("t")] == [b"kept"]
        assert (await served.create("next")).error_code == 0
        assert (await served.produce("next", b"led")).error_code == 0

    run(story)
