"""A broker with a registry of its own refuses control requests that come over the network: its controller is in it."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kavka.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
)
from kavka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopic,
    StopReplicaRequestTopicState,
    StopReplicaRequestUngroupedPartition,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestEndpoint,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from support.one_broker import Run, Served

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HIGHEST = 2**31 - 1
WHERE = TopicPartition("t", 0)


def stop(version: int, epoch: int) -> StopReplicaRequest:
    request = StopReplicaRequest(controller_id=0, controller_epoch=epoch)
    if version >= 3:
        state = StopReplicaRequestPartition(partition_index=0, delete_partition=True)
        topic = StopReplicaRequestTopicState(topic_name="t", partition_states=[state])
        request.topic_states = [topic]
        return request
    request.delete_partitions = True
    if version == 0:
        named = StopReplicaRequestUngroupedPartition(topic_name="t", partition_index=0)
        request.ungrouped_partitions = [named]
    else:
        request.topics = [StopReplicaRequestTopic(name="t", partition_indexes=[0])]
    return request


def lead(version: int, epoch: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequestPartition(
        topic_name="t" if version < 2 else "",
        partition_index=0,
        leader=7,
        leader_epoch=HIGHEST,
        replicas=[7, 0],
        isr=[7],
    )
    request = LeaderAndIsrRequest(controller_id=0, controller_epoch=epoch)
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [LeaderAndIsrRequestTopic(topic_name="t", partition_states=[state])]
    return request


def update(version: int, epoch: int) -> UpdateMetadataRequest:
    state = UpdateMetadataRequestPartition(
        topic_name="t" if version < 5 else "", leader=7, leader_epoch=HIGHEST, replicas=[7], isr=[7]
    )
    live = UpdateMetadataRequestBroker(id=7)
    if version == 0:
        live.v0_host, live.v0_port = "elsewhere", 9
    else:
        endpoint = UpdateMetadataRequestEndpoint(host="elsewhere", port=9)
        if version >= 3:
            endpoint.listener = "PLAINTEXT"
        live.endpoints = [endpoint]
    request = UpdateMetadataRequest(controller_id=7, controller_epoch=epoch, live_brokers=[live])
    if version < 5:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [
            UpdateMetadataRequestTopic(topic_name="t", partition_states=[state])
        ]
    return request


REQUESTS = {ApiKey.STOP_REPLICA: stop, ApiKey.LEADER_AND_ISR: lead, ApiKey.UPDATE_METADATA: update}


def rows(response: Any) -> list[Any]:
    found = list(getattr(response, "partition_errors", ()))
    for topic in getattr(response, "topics", ()):
        found += topic.partition_errors
    return found


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, v) for key in REQUESTS for v in range(APIS[key].min_version, APIS[key].max_version + 1)],
)
def test_lone_broker_refuses_control_requests_from_the_network(
    run: Run, key: ApiKey, version: int
) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        await served.produce("t", b"a")
        before = served.broker.control_requests.controller_epoch
        for epoch in (before, HIGHEST):
            response = await served.send(REQUESTS[key](version, epoch), version)
            assert response.error_code == REFUSED
            expected = [] if key is ApiKey.UPDATE_METADATA else [REFUSED]
            assert [row.error_code for row in rows(response)] == expected
        assert [r.value for r in await served.read("t")] == [b"a"]
        seen = await served.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        assert [live.node_id for live in seen.brokers] == [0]
        assert seen.topics[0].partitions[0].leader_id == 0
        assert (await served.create("later")).error_code == ErrorCode.NONE
        assert (await served.produce("later", b"b")).error_code == ErrorCode.NONE

    run(story)


def test_lone_broker_is_asked_for_nothing_that_brokers_ask_of_a_controller(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        own = served.broker.context.broker_epoch
        shutdown = await served.send(ControlledShutdownRequest(broker_id=0, broker_epoch=own))
        assert shutdown.error_code == REFUSED
        ids = await served.send(AllocateProducerIdsRequest(broker_id=0, broker_epoch=own))
        assert (ids.error_code, ids.producer_id_len) == (REFUSED, 0)
        proposal = AlterPartitionRequestPartition(partition_index=0, new_isr=[])
        topic = AlterPartitionRequestTopic(topic_name="t", partitions=[proposal])
        request = AlterPartitionRequest(broker_id=0, broker_epoch=own, topics=[topic])
        assert (await served.send(request, 1)).error_code == REFUSED
        assert (await served.produce("t", b"a", acks=-1)).error_code == ErrorCode.NONE

    run(story)


def test_marker_of_a_coordinator_epoch_that_no_coordinator_has_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        topic = WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0])

        async def mark(epoch: int) -> int:
            marker = WriteTxnMarkersRequestMarker(
                producer_id=7, producer_epoch=1, topics=[topic], coordinator_epoch=epoch
            )
            response = await served.send(WriteTxnMarkersRequest(markers=[marker]))
            code: int = response.markers[0].topics[0].partitions[0].error_code
            return code

        assert await mark(HIGHEST) == REFUSED
        assert await mark(1) == REFUSED
        assert served.broker.replica_manager.find(WHERE).log.log_end_offset == 0
        assert await mark(0) == ErrorCode.NONE

    run(story)
