"""The controller's picture of the cluster: brokers, assignments, leadership, deletions.

What the registry tells (brokers, new topics) is taken up as soon as it is read; what the controller itself writes is
taken up when it is written. So another controller that loads the tree has the same picture, up to what is soft:
suspicions, shutting down brokers, failed log directories, and how far a deletion is.

States of a partition, as they follow from the picture (Kafka keeps them as a field):

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
_MOST_GONE = 1000


class Endpoint(NamedTuple):
    """Where a broker listens."""

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
        """Whether the partition is on its way to other brokers."""
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
    """Whether the znode above the partitions exists."""
    partition_nodes: frozenset[int] = frozenset()
    """The partitions whose own znode exists, with a state or without."""


class Leadership(NamedTuple):
    """Who leads a partition, as it is in the registry; the znode's version is the partition epoch."""

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
    asked: set[tuple[int, int]] = field(factory=set)
    """(partition, broker) that were told to delete and have not answered."""
    done: set[tuple[int, int]] = field(factory=set)
    failed: set[tuple[int, int]] = field(factory=set)
    """Those that answered with an error: asked again when the broker comes back."""
    tokens: list[int] = field(factory=list)
    """Requests that wait for the end."""


@mutable
class Finishing:
    """A move whose target leads: which of the others were told to delete their replica, and have answered. Soft."""

    target: tuple[int, ...]
    leader_epoch: int
    """Of the first state in which the target leads: as long as that is not written, all replicas are needed."""
    asked: set[int] = field(factory=set)
    answered: set[int] = field(factory=set)


class ClusterState:
    """The whole picture. Only the machine's own modules change it."""

    def __init__(self) -> None:
        """Begin with nobody and nothing."""
        self.brokers: dict[int, LiveBroker] = {}
        self.suspects: set[int] = set()
        """Registered brokers that refuse connections: taken for dead until one gets through."""
        self.shutting_down: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker: replicas on a log directory that has failed."""
        self.topics: dict[str, Topic] = {}
        self.names: dict[TopicId, str] = {}
        self.deletions: dict[str, Deletion] = {}
        self.gone: dict[str, dict[TopicPartition, TopicId]] = {}
        """Topics that were deleted in this reign, a bounded number: a broker that was away then may still show them."""
        self.unread: dict[str, dict[int, int]] = {}
        """Topics that nobody can read any more: the brokers, with their epochs, that were registered until then."""
        self.waiting_deletions: dict[str, list[int]] = {}
        """Requests whose topics are being marked."""
        self.reassignment_node: dict[TopicPartition, tuple[int, ...]] = {}
        """What `/admin/reassign_partitions` still asks for."""
        self.finishing: dict[TopicPartition, Finishing] = {}
        # Invariant: by_broker[b] holds exactly the partitions whose assignment names b.
        self.by_broker: dict[int, dict[TopicPartition, None]] = {}

    def take_over(self, before: ClusterState) -> None:
        """Keep what the registry does not say of brokers that have not been born anew."""
        same = {b for b, live in self.brokers.items() if before.brokers.get(b) == live}
        self.suspects = before.suspects & same
        self.shutting_down = before.shutting_down & same
        self.offline_replicas = {b: w for b, w in before.offline_replicas.items() if b in same}
        self.gone = before.gone
        for name in self.topics:
            self.gone.pop(name, None)

    # -- brokers and replicas

    @property
    def reachable(self) -> list[int]:
        """The brokers that are told of changes: registered, not suspect; those that shut down as well."""
        return [broker for broker in sorted(self.brokers) if broker not in self.suspects]

    @property
    def live(self) -> list[int]:
        """The brokers that may take over something."""
        return [broker for broker in self.reachable if broker not in self.shutting_down]

    def is_reachable(self, broker: int) -> bool:
        """Tell whether a broker is registered and not suspect."""
        return broker in self.brokers and broker not in self.suspects

    def is_online(self, broker: int, where: TopicPartition, *, or_leaving: bool = False) -> bool:
        """Tell whether a replica can serve; one on a broker that shuts down can only if `or_leaving`."""
        if broker not in self.brokers or broker in self.suspects:
            return False
        if broker in self.shutting_down and not or_leaving:
            return False
        return where not in self.offline_replicas.get(broker, ())

    # -- topics

    def topic_partitions(self) -> Iterator[TopicPartition]:
        """Go over all partitions, in order."""
        for name in sorted(self.topics):
            yield from self.topics[name].partitions()

    def partitions_on(self, brokers: Iterable[int]) -> list[TopicPartition]:
        """Return the partitions that have a replica on one of the brokers, in order."""
        found: dict[TopicPartition, None] = {}
        for broker in brokers:
            found.update(self.by_broker.get(broker, {}))
        return sorted(found)

    def assignment(self, where: TopicPartition) -> Assignment | None:
        """Return a partition's assignment, or None when there is no such partition."""
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.assignments.get(where.partition)

    def obeyed_assignment(self, where: TopicPartition) -> Assignment | None:
        """Return the assignment that replicas are told: those that are deleted at the end of a move are none.

        What is decided and not written yet does not count: orders of the state before it may still be on their way.
        """
        assignment, leadership = self.assignment(where), self.leadership(where)
        finishing = self.finishing.get(where)
        if assignment is None or leadership is None or finishing is None:
            return assignment
        is_written = leadership.node.leader_epoch >= finishing.leader_epoch
        is_same = finishing.target == assignment.target
        return Assignment(assignment.target) if is_written and is_same else assignment

    def forget_unwritten_finish(self, where: TopicPartition) -> None:
        """Learn that the state with which a move was to be finished is not written: it is decided anew."""
        finishing, leadership = self.finishing.get(where), self.leadership(where)
        if finishing is not None and (
            leadership is None or leadership.node.leader_epoch < finishing.leader_epoch
        ):
            del self.finishing[where]

    def leadership(self, where: TopicPartition) -> Leadership | None:
        """Return who leads, or None while nobody ever did."""
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.leadership.get(where.partition)

    def is_deleting(self, name: str) -> bool:
        """Tell whether the deletion of a topic has begun: nothing else happens to it any more."""
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
            self.gone.pop(name, None)
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

    def put_assignment(self, where: TopicPartition, assignment: Assignment) -> None:
        """Take up the replicas of a partition of a known topic."""
        topic = self.topics[where.topic]
        before = topic.assignments.get(where.partition)
        if before is not None:
            for broker in before.replicas:
                self.by_broker[broker].pop(where, None)
        topic.assignments[where.partition] = assignment
        finishing = self.finishing.get(where)
        if finishing is not None and (
            not assignment.is_reassigning or finishing.target != assignment.target
        ):
            del self.finishing[where]
        for broker in assignment.replicas:
            self.by_broker.setdefault(broker, {})[where] = None

    def drop_partition(self, where: TopicPartition) -> None:
        """Forget a partition that somebody took out of the topic's znode."""
        topic = self.topics[where.topic]
        assignment = topic.assignments.pop(where.partition)
        self.finishing.pop(where, None)
        topic.leadership.pop(where.partition, None)
        for broker in assignment.replicas:
            self.by_broker[broker].pop(where, None)

    def remove_topic(self, name: str) -> None:
        """Take a topic for deleted."""
        topic = self.topics.get(name)
        if topic is None:
            return
        gone = dict.fromkeys(topic.partitions(), topic.topic_id)
        self.forget_topic(name)
        del self.unread[name]
        self.gone[name] = gone
        if len(self.gone) > _MOST_GONE:
            del self.gone[next(iter(self.gone))]

    def forget_topic(self, name: str) -> None:
        """Know nothing of a topic any more, which brokers go on to serve."""
        topic = self.topics.get(name)
        if topic is None:
            return
        self.unread[name] = {broker: live.epoch for broker, live in self.brokers.items()}
        for where in topic.partitions():
            self.drop_partition(where)
        for offline in self.offline_replicas.values():
            offline.difference_update({where for where in offline if where.topic == name})
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
