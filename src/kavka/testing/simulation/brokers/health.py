"""What a cluster must come to when nothing fails any more: everybody serves, everything is led and in sync."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.ids import TopicPartition
from kavka.testing.simulation.brokers.registries import RegistrySide
from kavka.testing.simulation.brokers.witness import Witness
from kavka.testing.simulation.cluster import BrokerNode
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode


class Health:
    """Compares the registry with what the brokers do."""

    def __init__(
        self, brokers: Sequence[BrokerNode], registry: RegistrySide, witness: Witness
    ) -> None:
        """Look at nothing yet."""
        self._brokers = brokers
        self._registry = registry
        self._witness = witness
        self._returning: dict[BrokerNode, int] = {}

    def must_return(self, broker: BrokerNode) -> None:
        """Find something wrong until this broker has been started anew, after this moment."""
        self._returning[broker] = broker.node.starts + 1

    def what_is_wrong(self) -> str:
        """Return the first thing that is not as it must be in the end; empty when all is well."""
        for broker in self._brokers:
            if not (broker.node.is_running and broker.is_serving):
                return f"{broker.node.name} does not serve"
            if broker.node.starts < self._returning.get(broker, 0):
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

    def _partition(self, where: TopicPartition, replicas: list[int]) -> str:
        state = self._witness.states.get(where)
        if state is None or state.leader < 0:
            return f"{where} has no leader: {state}"
        if sorted(state.in_sync_replicas) != sorted(replicas):
            return f"{where} is not in sync: {state}, replicas {replicas}"
        for broker in self._brokers:
            number = int(broker.node.name.rpartition("-")[2])
            wrong = self._obeyed(broker, number, where, number in replicas, state.leader)
            if wrong:
                return f"{where} on {broker.node.name} {wrong}: {state}"
        return ""

    def _obeyed(
        self, broker: BrokerNode, number: int, where: TopicPartition, hosts: bool, leader: int
    ) -> str:
        assert broker.broker is not None
        news = broker.broker.metadata.partition(where)
        if news is None or news.leader != leader:
            return f"is shown as {news}"
        replica = next((r for r in broker.broker.replicas if r.where == where), None)
        if not hosts:
            return "" if replica is None else "is still there"
        if replica is None:
            return "is missing"
        future = broker.broker.replicas.store.future(where)
        if future is not None:
            return f"is moved to {future.path}"
        if replica.partition.is_leader != (number == leader):
            return f"does not obey: {replica.partition}"
        return ""

    def replicas_differ(self) -> str:
        """Return where replicas of a partition do not end alike, once nobody writes; empty when all are equal."""
        ends: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
        for broker in self._brokers:
            if broker.broker is None:
                continue
            for replica in broker.broker.replicas:
                number = int(broker.node.name.rpartition("-")[2])
                both = (replica.log.log_end_offset, replica.partition.high_watermark)
                ends.setdefault(replica.where, {})[number] = both
        for where, by_broker in ends.items():
            if len(set(by_broker.values())) > 1 or any(end != hw for end, hw in by_broker.values()):
                return f"{where} ends at (end, high watermark) {by_broker}"
        return ""
