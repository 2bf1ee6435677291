"""A decision while it is made: later parts of the same step see the records of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kavka.core.controller.broker_updates import BrokerUpdate, Effect
from kavka.core.controller.records import (
    AssignmentWritten,
    Record,
    StateCreated,
    StateWritten,
)
from kavka.core.controller.replies import (
    Reply,
)
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import Assignment, ClusterState
from kavka.core.machine import Decision, SendReply, Token
from kavka.ids import TopicId, TopicPartition
from kavka.wire.stored.znodes import StateNode

ControllerDecision = Decision[Record, Effect]


class Step:
    """Reads the state with the decisions of this step applied; each znode is written at most once."""

    def __init__(self, state: ClusterState, settings: ControllerSettings, epoch: int) -> None:
        """Begin with nothing decided."""
        self.state = state
        self.settings = settings
        self.epoch = epoch
        self.before: list[Record] = []
        """Records that come before those of partitions."""
        self.after: list[Record] = []
        self.effects: list[Effect] = []
        self.returning: frozenset[int] = frozenset()
        """Brokers that have registered again, and count as offline for a moment so that their leaderships move."""
        self._topic_ids: dict[str, TopicId] = {}
        self._assignments: dict[TopicPartition, Assignment] = {}
        self._nodes: dict[TopicPartition, StateNode] = {}

    # -- reading

    def assignment(self, topic_partition: TopicPartition) -> Assignment | None:
        """Return a partition's assignment as this step leaves it."""
        return self._assignments.get(topic_partition) or self.state.assignment(topic_partition)

    def node(self, topic_partition: TopicPartition) -> StateNode | None:
        """Return a partition's leadership as this step leaves it."""
        node = self._nodes.get(topic_partition)
        if node is not None:
            return node
        leadership = self.state.leadership(topic_partition)
        return None if leadership is None else leadership.node

    def online(
        self, topic_partition: TopicPartition, *, or_leaving: bool = False
    ) -> Callable[[int], bool]:
        """Return a function that returns whether a broker's replica of the partition is online."""
        return lambda broker: self.state.is_online(broker, topic_partition, or_leaving=or_leaving)

    def may_return(self, broker: int, topic_partition: TopicPartition) -> bool:
        """Return whether a broker with an offline replica is registered nevertheless, or has yet to shut down."""
        if broker in self.returning or broker in self.state.suspects:
            return True
        return self.state.is_online(broker, topic_partition, or_leaving=True)

    # -- writing

    def put_topic_id(self, name: str, topic_id: TopicId) -> None:
        """Write the id of a topic into a znode without one."""
        self._topic_ids[name] = topic_id

    def put_assignment(self, topic_partition: TopicPartition, assignment: Assignment) -> None:
        """Write a partition's replicas."""
        self._assignments[topic_partition] = assignment

    def put_node(self, topic_partition: TopicPartition, node: StateNode) -> int:
        """Write a partition's leader and in-sync set, signed with this controller's epoch; return the leader epoch.

        However often a step decides, one write is one leader epoch.
        """
        before = self.state.leadership(topic_partition)
        leader_epoch = node.leader_epoch
        if before is not None:
            leader_epoch = min(leader_epoch, before.node.leader_epoch + 1)
        self._nodes[topic_partition] = node._replace(
            controller_epoch=self.epoch, leader_epoch=leader_epoch
        )
        return leader_epoch

    def update_brokers(self, update: BrokerUpdate) -> None:
        """Send an update to brokers, once everything is written."""
        self.effects.append(update)

    def reply(self, token: Token, reply: Reply) -> None:
        """Reply to a request, once everything is written."""
        self.effects.append(SendReply(token, reply))

    def decision(self) -> ControllerDecision:
        """Return all that was decided: for each topic its assignment first, then its partitions."""
        records = list(self.before)
        touched = dict.fromkeys(self._topic_ids)
        touched.update(dict.fromkeys(w.topic for w in (*self._assignments, *self._nodes)))
        nodes: dict[str, list[TopicPartition]] = {}
        for topic_partition in self._nodes:
            nodes.setdefault(topic_partition.topic, []).append(topic_partition)
        for topic in touched:
            records += self._assignment_records(topic)
            records += self._state_records(topic, nodes.get(topic, ()))
        return Decision((*records, *self.after), tuple(self.effects))

    def _assignment_records(self, name: str) -> list[Record]:
        changed = {w.partition: a for w, a in self._assignments.items() if w.topic == name}
        topic = self.state.topics.get(name)
        if topic is None:  # a topic that is being created carries its own
            return []
        topic_id = self._topic_ids.get(name)
        whole = {**topic.assignments, **changed}
        if topic_id is None and whole == topic.assignments:
            return []
        return [AssignmentWritten(name, topic_id or topic.topic_id, whole, topic.version)]

    def _state_records(self, name: str, partitions: Iterable[TopicPartition]) -> list[Record]:
        topic = self.state.topics.get(name)
        records: list[Record] = []
        has_root = topic is None or topic.has_partitions
        for topic_partition in partitions:
            leadership = self.state.leadership(topic_partition)
            if leadership is not None:
                records.append(
                    StateWritten(
                        topic_partition, self._nodes[topic_partition], leadership.partition_epoch
                    )
                )
                continue
            has_own = topic is not None and topic_partition.partition in topic.partition_nodes
            records.append(
                StateCreated(
                    topic_partition, self._nodes[topic_partition], not has_root, not has_own
                )
            )
            has_root = True
        return records
