"""Health of a cluster after all faults: every broker serves, every partition has a leader and is in sync."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.ids import TopicPartition
from kavka.simulation.brokers.observer import ClusterObserver
from kavka.simulation.brokers.registries import SimulatedRegistry
from kavka.simulation.cluster import BrokerNode
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode


class Health:
    """Compares the registry with what the brokers do."""

    def __init__(
        self, brokers: Sequence[BrokerNode], registry: SimulatedRegistry, observer: ClusterObserver
    ) -> None:
        """Begin without observations."""
        self._brokers = brokers
        self._registry = registry
        self._observer = observer
        self._expected_back: dict[BrokerNode, int] = {}

    def must_return(self, broker: BrokerNode) -> None:
        """Report the cluster unhealthy until this broker has been restarted after this moment."""
        self._expected_back[broker] = broker.node.starts + 1

    def first_problem(self) -> str:
        """Return the first thing that is not as it must be in the end; empty when all is well."""
        for broker in self._brokers:
            if not (broker.node.is_running and broker.is_serving):
                return f"{broker.node.name} does not serve"
            if broker.node.starts < self._expected_back.get(broker, 0):
                return f"{broker.node.name} has not come back"
        registered = sorted(map(int, self._registry.children(znodes.BROKER_IDS)))
        numbers = sorted(int(b.node.name.rpartition("-")[2]) for b in self._brokers)
        if registered != numbers:
            return f"registered are {registered}"
        if self._registry.controller not in numbers:
            return "there is no controller"
        deletions = self._registry.children(znodes.DELETED_TOPICS)
        if deletions:
            return f"topics wait for their deletion: {deletions}"
        for topic in self._registry.children(znodes.TOPICS):
            wrong = self._topic(topic)
            if wrong:
                return wrong
        return ""

    def _topic(self, topic: str) -> str:
        node = TopicNode.decode(self._registry.data(znodes.topic_path(topic)) or b"{}")
        if any(node.adding.values()) or any(node.removing.values()):
            return f"{topic} is being moved: {node}"
        for partition, replicas in node.assignment.items():
            wrong = self._partition(TopicPartition(topic, partition), replicas)
            if wrong:
                return wrong
        return ""

    def _partition(self, topic_partition: TopicPartition, replicas: list[int]) -> str:
        state = self._observer.states.get(topic_partition)
        if state is None or state.leader < 0:
            return f"{topic_partition} has no leader: {state}"
        if sorted(state.in_sync_replicas) != sorted(replicas):
            return f"{topic_partition} is not in sync: {state}, replicas {replicas}"
        for broker in self._brokers:
            number = int(broker.node.name.rpartition("-")[2])
            wrong = self._applied_state(
                broker, number, topic_partition, number in replicas, state.leader
            )
            if wrong:
                return f"{topic_partition} on {broker.node.name} {wrong}: {state}"
        return ""

    def _applied_state(
        self,
        broker: BrokerNode,
        number: int,
        topic_partition: TopicPartition,
        hosts: bool,
        leader: int,
    ) -> str:
        assert broker.broker is not None
        partition_metadata = broker.broker.metadata.partition(topic_partition)
        if partition_metadata is None or partition_metadata.leader != leader:
            return f"is shown as {partition_metadata}"
        replica = next(
            (r for r in broker.broker.replica_manager if r.topic_partition == topic_partition), None
        )
        if not hosts:
            return "" if replica is None else "is still there"
        if replica is None:
            return "is missing"
        future = broker.broker.replica_manager.store.future(topic_partition)
        if future is not None:
            return f"is moved to {future.path}"
        if replica.partition.is_leader != (number == leader):
            return f"does not obey: {replica.partition}"
        return ""

    def replicas_differ(self) -> str:
        """Return the partitions with replicas of different ends, once there are no writes."""
        ends: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
        for broker in self._brokers:
            if broker.broker is None:
                continue
            for replica in broker.broker.replica_manager:
                number = int(broker.node.name.rpartition("-")[2])
                both = (replica.log.log_end_offset, replica.partition.high_watermark)
                ends.setdefault(replica.topic_partition, {})[number] = both
        for topic_partition, by_broker in ends.items():
            if len(set(by_broker.values())) > 1 or any(end != hw for end, hw in by_broker.values()):
                return f"{topic_partition} ends at (end, high watermark) {by_broker}"
        return ""
