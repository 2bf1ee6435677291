"""AlterPartition: a leader proposes an in-sync set, the controller judges it and writes it down (KIP-497, KIP-903)."""

from __future__ import annotations

from kavka.core.controller.election import led_by
from kavka.core.controller.events import (
    AlterPartitionRequested,
    IsrChange,
)
from kavka.core.controller.replies import (
    IsrOutcome,
    IsrReply,
)
from kavka.core.controller.state import Leadership
from kavka.core.controller.step import Step
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.wire.stored.znodes import StateNode

_UNKNOWN_EPOCH = -1


def change(step: Step, event: AlterPartitionRequested) -> None:
    """Judge each proposal by itself, and write those that hold."""
    known = step.state.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch:
        step.reply(event.token, IsrReply(ErrorCode.STALE_BROKER_EPOCH))
        return
    outcomes = tuple(_one(step, event.broker, proposal) for proposal in event.changes)
    step.reply(event.token, IsrReply(ErrorCode.NONE, outcomes))


def _one(step: Step, leader: int, proposal: IsrChange) -> IsrOutcome:
    name = proposal.topic
    if proposal.topic_id != NO_TOPIC_ID:
        found = step.state.names.get(proposal.topic_id)
        if found is None:
            return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_ID)
        name = found
    topic_partition = TopicPartition(name, proposal.partition)
    current = step.state.leadership(topic_partition)
    if current is None or step.state.is_deleting(name):
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = judge(step, topic_partition, leader, proposal, current)
    if error is ErrorCode.INVALID_UPDATE_VERSION:
        # The leader missed a change, perhaps the response of a controller that died. It listens to a new leader epoch.
        node = current.node
        step.put_node(topic_partition, led_by(node, node.leader, node.in_sync_replicas))
    if error is not ErrorCode.NONE:
        return _refused(proposal, error, name)
    node, partition_epoch = current
    if not _is_so_already(proposal, node):
        node = node._replace(
            in_sync_replicas=list(proposal.in_sync_replicas), recovering=proposal.is_recovering
        )
        step.put_node(topic_partition, node)
        partition_epoch += 1
    topic_id = step.state.topics[name].topic_id
    return IsrOutcome(
        name,
        topic_id,
        proposal.partition,
        ErrorCode.NONE,
        step.node(topic_partition),
        partition_epoch,
    )


def judge(
    step: Step,
    topic_partition: TopicPartition,
    leader: int,
    proposal: IsrChange,
    current: Leadership,
) -> ErrorCode:
    """Return why a proposal is refused, or NONE; in the order of Kafka's controller."""
    node, partition_epoch = current
    if proposal.leader_epoch > node.leader_epoch or proposal.partition_epoch > partition_epoch:
        return (
            ErrorCode.NOT_CONTROLLER
        )  # the leader has a newer state: another broker is the controller
    if proposal.leader_epoch < node.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != node.leader:
        return ErrorCode.INVALID_REQUEST
    if _is_so_already(proposal, node):
        return ErrorCode.NONE
    if proposal.partition_epoch < partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if proposal.is_recovering and (len(proposal.in_sync_replicas) > 1 or not node.recovering):
        return ErrorCode.INVALID_REQUEST
    assignment = step.state.effective_assignment(topic_partition)
    proposed = proposal.in_sync_replicas
    if assignment is None or leader not in proposed or len(set(proposed)) != len(proposed):
        return ErrorCode.INVALID_REQUEST
    if not set(proposed) <= set(assignment.replicas):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(step, topic_partition, proposal, at) for at in range(len(proposed))):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_so_already(proposal: IsrChange, node: StateNode) -> bool:
    return (
        sorted(proposal.in_sync_replicas) == sorted(node.in_sync_replicas)
        and proposal.is_recovering == node.recovering
        and proposal.leader_epoch == node.leader_epoch
    )


def _is_eligible(step: Step, topic_partition: TopicPartition, proposal: IsrChange, at: int) -> bool:
    """Return whether a proposed replica is online, in the life that the leader knows of.

    The leader itself may be on its way down: it keeps what it has not handed over.
    """
    broker = proposal.in_sync_replicas[at]
    current = step.node(topic_partition)
    is_leader = current is not None and broker == current.leader
    if not step.state.is_online(broker, topic_partition, or_leaving=is_leader):
        return False
    epoch = proposal.broker_epochs[at] if proposal.broker_epochs else _UNKNOWN_EPOCH
    return epoch in (_UNKNOWN_EPOCH, step.state.brokers[broker].epoch)


def _refused(proposal: IsrChange, error: ErrorCode, name: str | None = None) -> IsrOutcome:
    topic = proposal.topic if name is None else name
    return IsrOutcome(topic, proposal.topic_id, proposal.partition, error)
