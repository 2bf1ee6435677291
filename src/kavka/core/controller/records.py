"""Records that the controller writes, and their registry operations.

A record is one change that makes sense by itself: a controller that dies between two of them leaves a tree that the
next one understands. The operations of one record happen in one multi wherever they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.core.controller.state import Assignment, topic_node
from kavka.core.znodes import Create, Delete, Operation, SetData
from kavka.ids import TopicId, TopicPartition
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode


class TopicCreated(NamedTuple):
    """A new topic with its settings."""

    topic: str
    topic_id: TopicId
    assignments: Mapping[int, Assignment]
    config: Mapping[str, str]
    """Settings that exist under that name already are replaced."""


class AssignmentWritten(NamedTuple):
    """All assignments of a topic, as they are from now on."""

    topic: str
    topic_id: TopicId
    assignments: Mapping[int, Assignment]
    expected_version: int


class StateCreated(NamedTuple):
    """The first leader of a partition."""

    topic_partition: TopicPartition
    node: StateNode
    makes_root: bool
    """True if the znode above the topic's partitions is missing."""
    makes_partition: bool
    """True if the partition's own znode is missing."""


class StateWritten(NamedTuple):
    """Another leader or in-sync set. The version that is expected is the partition epoch before."""

    topic_partition: TopicPartition
    node: StateNode
    expected_version: int


class DeletionMarked(NamedTuple):
    """A topic's deletion is requested, and cannot be undone."""

    topic: str


class DeletionDropped(NamedTuple):
    """The mark of a topic that does not exist, or may not be deleted, is taken away."""

    topic: str


class TopicRemoved(NamedTuple):
    """All replicas of a marked topic are deleted: it goes, with its settings and the mark."""

    topic: str


class ReassignmentNodeWritten(NamedTuple):
    """The remaining content of `/admin/reassign_partitions`; an empty one removes it."""

    remaining: Mapping[TopicPartition, tuple[int, ...]]


class PreferredElectionTaken(NamedTuple):
    """The request in `/admin/preferred_replica_election` is done."""


Record = (
    TopicCreated
    | AssignmentWritten
    | StateCreated
    | StateWritten
    | DeletionMarked
    | DeletionDropped
    | TopicRemoved
    | ReassignmentNodeWritten
    | PreferredElectionTaken
)


def operations_of(record: Record, below: Sequence[str] = ()) -> list[Operation]:
    """Return the operations of a record; `below` are, for TopicRemoved, the znodes that go, children first."""
    match record:
        case TopicCreated():
            return _create_topic(record)
        case AssignmentWritten():
            node = topic_node(record.topic_id, record.assignments)
            path = znodes.topic_path(record.topic)
            return [SetData(path, node.encode(), record.expected_version)]
        case StateCreated():
            return _create_state(record)
        case StateWritten(topic_partition, state, version):
            return [SetData(znodes.state_path(*topic_partition), state.encode(), version)]
        case DeletionMarked(topic):
            return [Create(deletion_path(topic))]
        case DeletionDropped(topic):
            return [Delete(deletion_path(topic))]
        case TopicRemoved(topic):
            return [Delete(path) for path in (*below, deletion_path(topic))]
        case ReassignmentNodeWritten(remaining):
            path = znodes.REASSIGN_PARTITIONS
            if not remaining:
                return [Delete(path)]
            return [SetData(path, znodes.encode_reassignments(remaining))]
        case PreferredElectionTaken():
            return [Delete(znodes.PREFERRED_ELECTION)]


def topic_of(record: Record) -> str | None:
    """Return the topic that a record is about, if it is about one."""
    match record:
        case StateCreated(topic_partition) | StateWritten(topic_partition):
            return topic_partition.topic
        case ReassignmentNodeWritten() | PreferredElectionTaken():
            return None
        case _:
            return record.topic


def deletion_path(topic: str) -> str:
    """Return the mark of a topic that is to be deleted."""
    return f"{znodes.DELETED_TOPICS}/{topic}"


def _create_topic(record: TopicCreated) -> list[Operation]:
    path = znodes.topic_path(record.topic)
    config = znodes.config_path("topics", record.topic)
    data = znodes.encode_config(record.config)
    return [
        Create(path, topic_node(record.topic_id, record.assignments).encode()),
        Create(f"{path}/partitions"),
        Create(config, data),
    ]


def _create_state(record: StateCreated) -> list[Operation]:
    topic_partition = record.topic_partition
    operations: list[Operation] = []
    if record.makes_root:
        operations.append(Create(f"{znodes.topic_path(topic_partition.topic)}/partitions"))
    if record.makes_partition:
        operations.append(Create(znodes.partition_path(*topic_partition)))
    operations.append(Create(znodes.state_path(*topic_partition), record.node.encode()))
    return operations
