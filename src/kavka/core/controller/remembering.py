"""What a written record changes in the picture, whom that concerns, and what becomes due by it."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.core.controller.orders import Outbox
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
class Due:
    """What is to be looked at by the next ticks."""

    deletions: dict[str, None] = field(factory=dict)
    reassignments: dict[TopicPartition, None] = field(factory=dict)
    foreign: dict[TopicPartition, None] = field(factory=dict)
    """Partitions whose state somebody else wrote, or whose assignment was written without the state that tells it."""

    returned: dict[int, set[TopicPartition]] = field(factory=dict)
    """By broker: replicas that it may have lost when it died, unseen."""

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.deletions or self.reassignments)


def apply_record(state: ClusterState, outbox: Outbox, due: Due, record: Record) -> None:
    """Take up one record."""
    match record:
        case TopicCreated():
            node = topic_node(record.topic_id, record.assignments)
            state.put_topic(record.topic, TopicRead(node, 0))
            outbox.unshown.forget(record.topic)
        case AssignmentWritten():
            _apply_assignment(state, outbox, due, record)
        case StateCreated(where, node):
            topic = state.topics[where.topic]
            topic.has_partitions = True
            topic.partition_nodes.add(where.partition)
            topic.leadership[where.partition] = Leadership(node, 0)
            outbox.hold(where)
            obey(state, outbox, where, is_new=True)
            _go_on_moving(state, due, where)
        case StateWritten():
            _apply_state(state, outbox, due, record)
        case DeletionMarked(name):
            tokens = state.waiting_deletions.pop(name, [])
            state.deletions[name] = Deletion(tokens=tokens)
            due.deletions[name] = None
        case TopicRemoved(name):
            state.remove_topic(name)
            state.deletions.pop(name, None)
            outbox.unshown.forget(name)
        case ReassignmentNodeWritten(remaining):
            state.reassignment_node = dict(remaining)
        case DeletionDropped() | PreferredElectionTaken():
            pass


def _apply_assignment(
    state: ClusterState, outbox: Outbox, due: Due, record: AssignmentWritten
) -> None:
    topic = state.topics[record.topic]
    topic.version = record.expected_version + 1
    if topic.topic_id != record.topic_id:
        state.put_topic_id(record.topic, record.topic_id)
        for where in topic.partitions():  # the same state once more fills the id in
            obey(state, outbox, where, is_new=False)
    for partition, assignment in record.assignments.items():
        before = topic.assignments.get(partition)
        if before == assignment:
            continue
        where = TopicPartition(record.topic, partition)
        state.put_assignment(where, assignment)
        if before is not None:
            fresh = [b for b in assignment.replicas if b not in before.replicas]
            outbox.written(where, _reached(state, fresh), state.reachable, new=True)
    if record.topic in state.deletions:
        due.deletions[record.topic] = None


def _apply_state(state: ClusterState, outbox: Outbox, due: Due, record: StateWritten) -> None:
    where, node, expected_version = record
    topic = state.topics[where.topic]
    before = topic.leadership[where.partition].node
    topic.leadership[where.partition] = Leadership(node, expected_version + 1)
    if node.leader == NO_LEADER:
        outbox.unshown.answered(where)
    if node.leader_epoch > before.leader_epoch:
        due.foreign.pop(where, None)
        obey(state, outbox, where, is_new=False)
    else:  # the leader knows, it proposed that
        outbox.learned(where, state.reachable)
    _go_on_moving(state, due, where)


def _go_on_moving(state: ClusterState, due: Due, where: TopicPartition) -> None:
    """Look at a move again: the target may be in sync now."""
    assignment = state.assignment(where)
    if assignment is not None and assignment.is_reassigning:
        due.reassignments[where] = None


def obey(state: ClusterState, outbox: Outbox, where: TopicPartition, *, is_new: bool) -> None:
    """Have the replicas of a partition obey its state, and everybody learn of it."""
    assignment = state.obeyed_assignment(where)
    replicas = () if assignment is None else assignment.replicas
    outbox.written(where, _reached(state, replicas), state.reachable, new=is_new)


def _reached(state: ClusterState, replicas: Iterable[int]) -> list[int]:
    return [broker for broker in replicas if state.is_reachable(broker)]
