"""The controller's state of the cluster: brokers, assignments, leadership, deletions.

Changes in the registry by others (brokers, new topics) are applied as soon as they are read, the controller's own
writes when they are written. So another controller that loads the tree has the same state, except for the soft part:
suspect brokers, brokers that shut down, failed log directories, and the progress of deletions.

States of a partition, as they follow from the state (Kafka keeps them as a field):

    NewPartition      no state znode yet: a leader is elected as soon as one of its replicas is online
    OnlinePartition   its leader is online
    OfflinePartition  its leader is -1 or not online

Source: Kafka's `ControllerContext`, KIP-455.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition, are_other_topics
from kavka.values import field, mutable
from kavka.wire.stored.znodes import StateNode, TopicNode

NO_LEADER = -1
_MAX_DELETED_TOPICS = 1000


class Endpoint(NamedTuple):
    """The endpoint of a broker."""

    listener: str
    host: str
    port: int
    protocol: str


class LiveBroker(NamedTuple):
    """A broker that is registered. Its epoch is the czxid of its znode."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None


class Assignment(NamedTuple):
    """The replicas of a partition, the preferred leader first.

    While it moves, `replicas` are the new and the old ones; `adding` and `removing` are those of only one of them.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Return whether the partition is being reassigned."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the move is done."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas if the move is called off."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    def reassign_to(self, target: Sequence[int]) -> Assignment:
        """Return the assignment while the partition moves to `target`, from where it was before any move."""
        origin, wanted = self.origin, frozenset(target)
        every = tuple(dict.fromkeys((*target, *origin)))
        return Assignment(
            every,
            tuple(broker for broker in every if broker not in origin),
            tuple(broker for broker in every if broker not in wanted),
        )


class TopicRead(NamedTuple):
    """A topic as it is in the registry."""

    node: TopicNode
    version: int
    states: Mapping[int, tuple[StateNode, int]] = {}
    """Of each partition that has one: its state, and the version of that znode."""
    has_partitions: bool = True
    """True if the znode above the partitions exists."""
    partition_nodes: frozenset[int] = frozenset()
    """The partitions with a znode of their own, with a state or without."""


class Leadership(NamedTuple):
    """A partition's leader and in-sync set in the registry; the znode's version is the partition epoch."""

    node: StateNode
    partition_epoch: int


@mutable
class Topic:
    """A topic and its partitions."""

    name: str
    topic_id: TopicId
    version: int
    assignments: dict[int, Assignment] = field(factory=dict)
    leadership: dict[int, Leadership] = field(factory=dict)
    has_partitions: bool = False
    partition_nodes: set[int] = field(factory=set)

    def partitions(self) -> list[TopicPartition]:
        """Return its partitions, in order."""
        return [TopicPartition(self.name, partition) for partition in sorted(self.assignments)]


@mutable
class Deletion:
    """A topic that is marked: how far its replicas are.

    Soft, but for the mark: a new controller asks all replicas again.
    """

    has_begun: bool = False
    requested: set[tuple[int, int]] = field(factory=set)
    """(partition, broker) pairs that were requested to delete and have not responded."""
    done: set[tuple[int, int]] = field(factory=set)
    failed: set[tuple[int, int]] = field(factory=set)
    """Those that answered with an error: asked again when the broker comes back."""
    tokens: list[int] = field(factory=list)
    """Requests that wait for the end."""


@mutable
class FinishingReassignment:
    """A reassignment with a leader in the target: removed replicas that were sent StopReplica, and that responded.

    Soft state.
    """

    target: tuple[int, ...]
    leader_epoch: int
    """Of the first state in which the target leads: as long as that is not written, all replicas are needed."""
    requested: set[int] = field(factory=set)
    acknowledged: set[int] = field(factory=set)


class ClusterState:
    """The whole state. Only the machine's own modules change it."""

    def __init__(self) -> None:
        """Start without brokers and topics."""
        self.brokers: dict[int, LiveBroker] = {}
        self.suspects: set[int] = set()
        """Registered brokers that refuse connections: taken for dead until one gets through."""
        self.shutting_down: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker: replicas on a log directory that has failed."""
        self.topics: dict[str, Topic] = {}
        self.names: dict[TopicId, str] = {}
        self.deletions: dict[str, Deletion] = {}
        self.deleted_topics: dict[str, dict[TopicPartition, TopicId]] = {}
        """Topics deleted in this controller term, a bounded number: a broker that was offline then may still serve
        them.
        """
        self.unread: dict[str, dict[int, int]] = {}
        """Topics with znodes that cannot be decoded any more, with the brokers and epochs registered at that time."""
        self.waiting_deletions: dict[str, list[int]] = {}
        """Requests with topics that are being marked."""
        self.reassignment_node: dict[TopicPartition, tuple[int, ...]] = {}
        """The remaining content of `/admin/reassign_partitions`."""
        self.finishing: dict[TopicPartition, FinishingReassignment] = {}
        # Invariant: by_broker[b] holds exactly the partitions with b in their assignment.
        self.by_broker: dict[int, dict[TopicPartition, None]] = {}

    def inherit(self, before: ClusterState) -> None:
        """Keep the state that the registry does not have, of brokers that have not registered again."""
        same = {b for b, live in self.brokers.items() if before.brokers.get(b) == live}
        self.suspects = before.suspects & same
        self.shutting_down = before.shutting_down & same
        self.offline_replicas = {b: w for b, w in before.offline_replicas.items() if b in same}
        self.deleted_topics = before.deleted_topics
        for name in self.topics:
            self.deleted_topics.pop(name, None)

    # -- brokers and replicas

    @property
    def reachable(self) -> list[int]:
        """Return the brokers that get updates: registered and not suspected, including those that shut down."""
        return [broker for broker in sorted(self.brokers) if broker not in self.suspects]

    @property
    def live(self) -> list[int]:
        """The brokers that may take over something."""
        return [broker for broker in self.reachable if broker not in self.shutting_down]

    def is_reachable(self, broker: int) -> bool:
        """Return whether a broker is registered and not suspect."""
        return broker in self.brokers and broker not in self.suspects

    def is_online(
        self, broker: int, topic_partition: TopicPartition, *, or_leaving: bool = False
    ) -> bool:
        """Return whether a replica can serve; one on a broker that shuts down can only if `or_leaving`."""
        if broker not in self.brokers or broker in self.suspects:
            return False
        if broker in self.shutting_down and not or_leaving:
            return False
        return topic_partition not in self.offline_replicas.get(broker, ())

    # -- topics

    def topic_partitions(self) -> Iterator[TopicPartition]:
        """Iterate over all partitions, in order."""
        for name in sorted(self.topics):
            yield from self.topics[name].partitions()

    def partitions_on(self, brokers: Iterable[int]) -> list[TopicPartition]:
        """Return the partitions that have a replica on one of the brokers, in order."""
        found: dict[TopicPartition, None] = {}
        for broker in brokers:
            found.update(self.by_broker.get(broker, {}))
        return sorted(found)

    def assignment(self, topic_partition: TopicPartition) -> Assignment | None:
        """Return a partition's assignment, or None when there is no such partition."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.assignments.get(topic_partition.partition)

    def effective_assignment(self, topic_partition: TopicPartition) -> Assignment | None:
        """Return the assignment that replicas are sent, without those that a finishing reassignment deletes.

        Unwritten decisions do not count: control requests of the state before may still be on their way.
        """
        assignment, leadership = self.assignment(topic_partition), self.leadership(topic_partition)
        finishing = self.finishing.get(topic_partition)
        if assignment is None or leadership is None or finishing is None:
            return assignment
        is_written = leadership.node.leader_epoch >= finishing.leader_epoch
        is_same = finishing.target == assignment.target
        return Assignment(assignment.target) if is_written and is_same else assignment

    def forget_unwritten_finish(self, topic_partition: TopicPartition) -> None:
        """Drop a finishing reassignment after its state was not written: it is decided again."""
        finishing, leadership = (
            self.finishing.get(topic_partition),
            self.leadership(topic_partition),
        )
        if finishing is not None and (
            leadership is None or leadership.node.leader_epoch < finishing.leader_epoch
        ):
            del self.finishing[topic_partition]

    def leadership(self, topic_partition: TopicPartition) -> Leadership | None:
        """Return the leadership of a partition, or None before its first election."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.leadership.get(topic_partition.partition)

    def is_deleting(self, name: str) -> bool:
        """Return whether the deletion of a topic has begun: nothing else happens to it any more."""
        deletion = self.deletions.get(name)
        return deletion is not None and deletion.has_begun

    def put_topic(self, name: str, read: TopicRead) -> None:
        """Take up a topic, or its present assignment and states, from the registry."""
        present = self.topics.get(name)
        if present is not None and are_other_topics(present.topic_id, read.node.topic_id):
            self.remove_topic(name)
            present = None
        if present is None:
            present = self.topics[name] = Topic(name, NO_TOPIC_ID, read.version)
            self.deleted_topics.pop(name, None)
        if read.node.topic_id != NO_TOPIC_ID:
            self.put_topic_id(name, read.node.topic_id)
        present.version = read.version
        present.has_partitions |= read.has_partitions
        present.partition_nodes |= read.partition_nodes | set(read.states)
        for partition in set(present.assignments) - set(read.node.assignment):
            self.drop_partition(TopicPartition(name, partition))
        for partition, assignment in assignments_of(read.node).items():
            self.put_assignment(TopicPartition(name, partition), assignment)
        for partition, (node, version) in read.states.items():
            present.leadership[partition] = Leadership(node, version)

    def put_topic_id(self, name: str, topic_id: TopicId) -> None:
        """Take up the id of a known topic; it has none yet, or this one."""
        self.topics[name].topic_id = topic_id
        self.names[topic_id] = name

    def put_assignment(self, topic_partition: TopicPartition, assignment: Assignment) -> None:
        """Take up the replicas of a partition of a known topic."""
        topic = self.topics[topic_partition.topic]
        before = topic.assignments.get(topic_partition.partition)
        if before is not None:
            for broker in before.replicas:
                self.by_broker[broker].pop(topic_partition, None)
        topic.assignments[topic_partition.partition] = assignment
        finishing = self.finishing.get(topic_partition)
        if finishing is not None and (
            not assignment.is_reassigning or finishing.target != assignment.target
        ):
            del self.finishing[topic_partition]
        for broker in assignment.replicas:
            self.by_broker.setdefault(broker, {})[topic_partition] = None

    def drop_partition(self, topic_partition: TopicPartition) -> None:
        """Drop a partition that another writer removed from the topic's znode."""
        topic = self.topics[topic_partition.topic]
        assignment = topic.assignments.pop(topic_partition.partition)
        self.finishing.pop(topic_partition, None)
        topic.leadership.pop(topic_partition.partition, None)
        for broker in assignment.replicas:
            self.by_broker[broker].pop(topic_partition, None)

    def remove_topic(self, name: str) -> None:
        """Take a topic for deleted."""
        topic = self.topics.get(name)
        if topic is None:
            return
        gone = dict.fromkeys(topic.partitions(), topic.topic_id)
        self.forget_topic(name)
        del self.unread[name]
        self.deleted_topics[name] = gone
        if len(self.deleted_topics) > _MAX_DELETED_TOPICS:
            del self.deleted_topics[next(iter(self.deleted_topics))]

    def forget_topic(self, name: str) -> None:
        """Remove a topic from the state; brokers continue to serve it."""
        topic = self.topics.get(name)
        if topic is None:
            return
        self.unread[name] = {broker: live.epoch for broker, live in self.brokers.items()}
        for topic_partition in topic.partitions():
            self.drop_partition(topic_partition)
        for offline in self.offline_replicas.values():
            offline.difference_update(
                {topic_partition for topic_partition in offline if topic_partition.topic == name}
            )
        self.names.pop(topic.topic_id, None)
        del self.topics[name]


def assignments_of(node: TopicNode) -> dict[int, Assignment]:
    """Return the assignments that a topic's znode holds."""
    return {
        partition: Assignment(
            tuple(replicas),
            tuple(node.adding.get(partition, ())),
            tuple(node.removing.get(partition, ())),
        )
        for partition, replicas in node.assignment.items()
    }


def topic_node(topic_id: TopicId, assignments: Mapping[int, Assignment]) -> TopicNode:
    """Return the topic's znode with these assignments; only partitions that move are named twice."""
    items = sorted(assignments.items())
    return TopicNode(
        topic_id,
        {partition: list(a.replicas) for partition, a in items},
        {partition: list(a.adding) for partition, a in items if a.adding},
        {partition: list(a.removing) for partition, a in items if a.removing},
    )
