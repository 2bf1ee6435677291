"""Application of a written record to the controller's state: broker updates and follow-up work."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.core.controller.broker_updates import Outbox
from kavka.core.controller.records import (
    AssignmentWritten,
    DeletionDropped,
    DeletionMarked,
    PreferredElectionTaken,
    ReassignmentNodeWritten,
    Record,
    StateCreated,
    StateWritten,
    TopicCreated,
    TopicRemoved,
)
from kavka.core.controller.state import (
    NO_LEADER,
    ClusterState,
    Deletion,
    Leadership,
    TopicRead,
    topic_node,
)
from kavka.ids import TopicPartition
from kavka.values import field, mutable


@mutable
class PendingWork:
    """Follow-up work for the next ticks."""

    deletions: dict[str, None] = field(factory=dict)
    reassignments: dict[TopicPartition, None] = field(factory=dict)
    written_by_others: dict[TopicPartition, None] = field(factory=dict)
    """Partitions with a state of another writer, or with an assignment that was written without its state."""

    returned: dict[int, set[TopicPartition]] = field(factory=dict)
    """By broker: replicas that it may have lost when it died, unseen."""

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.deletions or self.reassignments)


def apply_record(state: ClusterState, outbox: Outbox, due: PendingWork, record: Record) -> None:
    """Take up one record."""
    match record:
        case TopicCreated():
            node = topic_node(record.topic_id, record.assignments)
            state.put_topic(record.topic, TopicRead(node, 0))
            outbox.unpublished.forget(record.topic)
        case AssignmentWritten():
            _apply_assignment(state, outbox, due, record)
        case StateCreated(topic_partition, node):
            topic = state.topics[topic_partition.topic]
            topic.has_partitions = True
            topic.partition_nodes.add(topic_partition.partition)
            topic.leadership[topic_partition.partition] = Leadership(node, 0)
            outbox.withhold(topic_partition)
            notify_replicas(state, outbox, topic_partition, is_new=True)
            _continue_reassignment(state, due, topic_partition)
        case StateWritten():
            _apply_state(state, outbox, due, record)
        case DeletionMarked(name):
            tokens = state.waiting_deletions.pop(name, [])
            state.deletions[name] = Deletion(tokens=tokens)
            due.deletions[name] = None
        case TopicRemoved(name):
            state.remove_topic(name)
            state.deletions.pop(name, None)
            outbox.unpublished.forget(name)
        case ReassignmentNodeWritten(remaining):
            state.reassignment_node = dict(remaining)
        case DeletionDropped() | PreferredElectionTaken():
            pass


def _apply_assignment(
    state: ClusterState, outbox: Outbox, due: PendingWork, record: AssignmentWritten
) -> None:
    topic = state.topics[record.topic]
    topic.version = record.expected_version + 1
    if topic.topic_id != record.topic_id:
        state.put_topic_id(record.topic, record.topic_id)
        for topic_partition in topic.partitions():  # the same state once more fills the id in
            notify_replicas(state, outbox, topic_partition, is_new=False)
    for partition, assignment in record.assignments.items():
        before = topic.assignments.get(partition)
        if before == assignment:
            continue
        topic_partition = TopicPartition(record.topic, partition)
        state.put_assignment(topic_partition, assignment)
        if before is not None:
            fresh = [b for b in assignment.replicas if b not in before.replicas]
            outbox.leadership_written(
                topic_partition, _reached(state, fresh), state.reachable, new=True
            )
    if record.topic in state.deletions:
        due.deletions[record.topic] = None


def _apply_state(
    state: ClusterState, outbox: Outbox, due: PendingWork, record: StateWritten
) -> None:
    topic_partition, node, expected_version = record
    topic = state.topics[topic_partition.topic]
    before = topic.leadership[topic_partition.partition].node
    topic.leadership[topic_partition.partition] = Leadership(node, expected_version + 1)
    if node.leader == NO_LEADER:
        outbox.unpublished.leader_responded(topic_partition)
    if node.leader_epoch > before.leader_epoch:
        due.written_by_others.pop(topic_partition, None)
        notify_replicas(state, outbox, topic_partition, is_new=False)
    else:  # the leader knows, it proposed that
        outbox.partition_changed(topic_partition, state.reachable)
    _continue_reassignment(state, due, topic_partition)


def _continue_reassignment(
    state: ClusterState, due: PendingWork, topic_partition: TopicPartition
) -> None:
    """Check a reassignment again: the target may be in sync now."""
    assignment = state.assignment(topic_partition)
    if assignment is not None and assignment.is_reassigning:
        due.reassignments[topic_partition] = None


def notify_replicas(
    state: ClusterState, outbox: Outbox, topic_partition: TopicPartition, *, is_new: bool
) -> None:
    """Mark a partition for LeaderAndIsr to its replicas and UpdateMetadata to all brokers."""
    assignment = state.effective_assignment(topic_partition)
    replicas = () if assignment is None else assignment.replicas
    outbox.leadership_written(
        topic_partition, _reached(state, replicas), state.reachable, new=is_new
    )


def _reached(state: ClusterState, replicas: Iterable[int]) -> list[int]:
    return [broker for broker in replicas if state.is_reachable(broker)]
