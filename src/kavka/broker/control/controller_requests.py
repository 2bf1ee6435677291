"""Requests of brokers to the controller: AlterPartition, ControlledShutdown, AllocateProducerIds."""

from __future__ import annotations

import logging
from typing import Any

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.control.producer_ids import NoProducerId, ProducerIdManager
from kavka.core.controller.events import (
    AlterPartitionRequested,
    ControlledShutdownRequested,
    IsrChange,
)
from kavka.core.controller.replies import (
    IsrOutcome,
    IsrReply,
    ShutdownReply,
)
from kavka.errors import ErrorCode
from kavka.ids import TopicId
from kavka.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kavka.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from kavka.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlledShutdownResponsePartition,
)

log = logging.getLogger(__name__)

_NEWEST_ALTER_PARTITION = 3
_FIRST_WITH_INELIGIBLE = 2
"""The first version with INELIGIBLE_REPLICA."""


async def handle(controller: Controller, producer_ids: ProducerIdManager, request: Any) -> Any:
    """Answer a request of the controller's own broker, in its newest version. Raise ConnectionError."""
    if isinstance(request, AlterPartitionRequest):
        return await alter_partition(controller, request, _NEWEST_ALTER_PARTITION)
    if isinstance(request, ControlledShutdownRequest):
        return await controlled_shutdown(controller, request)
    assert isinstance(request, AllocateProducerIdsRequest), request
    return await allocate_producer_ids(controller, producer_ids, request)


# -- AlterPartition


async def alter_partition(
    controller: Controller, request: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    """Decide a leader's proposals for in-sync sets, and write them."""
    changes = [
        _change(topic, partition) for topic in request.topics for partition in topic.partitions
    ]
    try:
        reply: IsrReply = await controller.submit_and_wait(
            lambda token: AlterPartitionRequested(
                token, request.broker_id, request.broker_epoch, changes
            )
        )
    except NotControllerError:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if reply.error is not ErrorCode.NONE:
        return AlterPartitionResponse(error_code=reply.error)
    topics: dict[tuple[str, bytes], AlterPartitionResponseTopic] = {}
    rows = zip(changes, reply.outcomes, strict=True)
    for change, outcome in rows:
        topic = topics.setdefault(
            (change.topic, change.topic_id),
            AlterPartitionResponseTopic(topic_name=change.topic, topic_id=change.topic_id),
        )
        topic.partitions.append(_row(outcome, version))
    return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=list(topics.values()))


def _change(topic: AlterPartitionRequestTopic, asked: AlterPartitionRequestPartition) -> IsrChange:
    with_epochs = asked.new_isr_with_epochs
    in_sync = tuple(row.broker_id for row in with_epochs) or tuple(asked.new_isr)
    return IsrChange(
        topic.topic_name,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        in_sync,
        tuple(row.broker_epoch for row in with_epochs),
        asked.leader_recovery_state == 1,
        TopicId(bytes(topic.topic_id)),
    )


def _row(outcome: IsrOutcome, version: int) -> AlterPartitionResponsePartition:
    error = outcome.error
    if error is ErrorCode.INELIGIBLE_REPLICA and version < _FIRST_WITH_INELIGIBLE:
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
    if outcome.node is None:
        return AlterPartitionResponsePartition(partition_index=outcome.partition, error_code=error)
    return AlterPartitionResponsePartition(
        partition_index=outcome.partition,
        error_code=error,
        leader_id=outcome.node.leader,
        leader_epoch=outcome.node.leader_epoch,
        isr=list(outcome.node.in_sync_replicas),
        leader_recovery_state=int(outcome.node.recovering),
        partition_epoch=outcome.partition_epoch,
    )


# -- ControlledShutdown


async def controlled_shutdown(
    controller: Controller, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Move leaderships away from a broker that wants to stop."""
    try:
        reply: ShutdownReply = await controller.submit_and_wait(
            lambda token: ControlledShutdownRequested(
                token, request.broker_id, request.broker_epoch
            )
        )
    except NotControllerError:
        return ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return ControlledShutdownResponse(
        error_code=reply.error,
        remaining_partitions=[
            ControlledShutdownResponsePartition(
                topic_name=topic_partition.topic, partition_index=topic_partition.partition
            )
            for topic_partition in reply.remaining
        ],
    )


# -- AllocateProducerIds


async def allocate_producer_ids(
    controller: Controller, producer_ids: ProducerIdManager, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Allocate a block of producer ids for a broker."""
    if not controller.is_active:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    known = controller.state.brokers.get(request.broker_id)
    if known is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if known.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    try:
        block = await producer_ids.allocate_block(request.broker_id)
    except NoProducerId as error:
        log.error("no producer ids for a broker id=%d reason=%s", request.broker_id, error)
        return AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE,
        producer_id_start=block.start,
        producer_id_len=block.end - block.start + 1,
    )
