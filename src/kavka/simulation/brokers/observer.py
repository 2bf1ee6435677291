"""The observer of a run: it inspects the brokers between their steps, and reports to the invariants.

It reads the memory of live processes and the files of their logs without their I/O, so it changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from kavka.broker.partitions.replica import Replica
from kavka.core.partition import Role
from kavka.ids import TopicId, TopicPartition
from kavka.simulation.brokers.registries import SimulatedRegistry
from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.events import (
    Batch,
    BatchesSeen,
    ClusterObserved,
    LogsAudited,
    ReplicaSeen,
)
from kavka.storage.segment.segment import segment_name
from kavka.wire.records.batch import decode_batch
from kavka.wire.records.header import walk_complete
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode

if TYPE_CHECKING:
    from kavka.simulation.world import World

_OBSERVE_EVERY = 4
"""Moments of virtual time at which something happened."""
_COMPARE_EVERY = 200

ReplicaKey = tuple[int, int, bytes, int]
Fact = tuple[int, int, TopicPartition, TopicId, bool, int, int, int, int]
"""The fields of a `ReplicaSeen`."""


class ClusterObserver:
    """Looks, for as long as the world's loop runs."""

    def __init__(
        self,
        world: World,
        brokers: Sequence[BrokerNode],
        registry: SimulatedRegistry,
        checker: Checker,
    ) -> None:
        """Observe `brokers` from now on."""
        self._world = world
        self._brokers = brokers
        self._registry = registry
        self._checker = checker
        self._steps = 0
        self._zxid = -1
        self._states: dict[TopicPartition, StateNode] = {}
        self._compared: dict[ReplicaKey, int] = {}
        self._facts: list[Fact] = []
        self._observed_states: dict[TopicPartition, StateNode] = {}
        """The states reported last."""
        self.expects_throttle = False
        """True if the delay of a follower by a throttle is to be reported, once."""
        world.loop.at_rest = self._rest

    @property
    def states(self) -> dict[TopicPartition, StateNode]:
        """All partitions' states in the registry."""
        tree = self._registry.tree
        if tree.zxid != self._zxid:
            self._zxid = tree.zxid
            self._states = read_states(self._registry)
        return self._states

    def _rest(self) -> None:
        self._steps += 1
        if self._steps % _OBSERVE_EVERY == 0 and not self._checker.stop.is_set():
            self.observe()
        if self._steps % _COMPARE_EVERY == 0 and not self._checker.stop.is_set():
            self.compare()

    def _replicas(self) -> list[tuple[BrokerNode, Replica]]:
        return [
            (node, replica)
            for node in self._brokers
            if node.broker is not None and node.is_serving and node.node.is_running
            for replica in node.broker.replica_manager
            if replica.log.directory.failure is None
        ]

    def observe(self) -> None:
        """Report the replicas of all partitions that changed since the last check."""
        if self.expects_throttle:
            self._check_throttles()
        facts = self._observe_all()
        states = self.states
        if facts == self._facts and states is self._observed_states:
            return
        if len(facts) == len(self._facts):
            changed = [pair for pair in zip(facts, self._facts, strict=True) if pair[0] != pair[1]]
            news = {topic_partition for pair in changed for _, _, topic_partition, *_ in pair}
        else:
            news = {
                topic_partition
                for _, _, topic_partition, *_ in set(facts).symmetric_difference(self._facts)
            }
        if states is not self._observed_states:
            news |= {
                topic_partition
                for topic_partition, state in states.items()
                if self._observed_states.get(topic_partition) != state
            }
        self._facts, self._observed_states = facts, states
        seen = tuple(ReplicaSeen(*fact) for fact in facts if fact[2] in news)
        self._checker.observe(ClusterObserved(seen, states))

    def _check_throttles(self) -> None:
        """Report, once, that a leader delays a follower because of a throttle."""
        for node in self._brokers:
            broker = node.broker
            if broker is not None and node.is_serving and node.node.is_running:
                replication_manager = broker.replication_if_started
                if (
                    replication_manager is not None
                    and replication_manager.leader_throttle.holds_back
                ):
                    self.expects_throttle = False
                    self._world.trace.add(node.node.name, "holds a follower back, it is throttled")

    def _observe_all(self) -> list[Fact]:
        """Return what all replicas are. A seed asks for it some thousand times, so it is one expression."""
        leader = Role.LEADER
        return [
            (
                partition.broker_id,
                starts,
                replica.topic_partition,
                partition.topic_id,
                partition.role is leader,
                partition.leader_epoch,
                partition.high_watermark,
                log.log_start_offset,
                log.log_end_offset,
            )
            for node in self._brokers
            if node.broker is not None and node.is_serving and node.node.is_running
            for starts in (node.node.starts,)
            for replica in node.broker.replica_manager
            for partition, log in ((replica.partition, replica.log),)
            if log.directory.failure is None
        ]

    def compare(self) -> None:
        """Report the batches below the high watermarks that were not reported yet."""
        for node, replica in self._replicas():
            partition = replica.partition
            topic_partition = replica.topic_partition
            replica_start = (
                partition.broker_id,
                node.node.starts,
                bytes(partition.topic_id) + topic_partition.topic.encode(),
                topic_partition.partition,
            )
            end = min(partition.high_watermark, replica.log.written_offset)
            start = min(self._compared.get(replica_start, 0), end)
            batches = _batches(node, replica, max(start, replica.log.log_start_offset), end)
            self._compared[replica_start] = end
            if batches:
                self._checker.observe(
                    BatchesSeen(
                        partition.broker_id, partition.topic_id, topic_partition, tuple(batches)
                    )
                )

    def audit(self) -> None:
        """Report all batches of all replicas that are not compacted, after the last write."""
        logs: dict[TopicPartition, dict[int, tuple[Batch, ...]]] = {}
        for node, replica in self._replicas():
            log = replica.log
            if not log.config.is_compacted:
                batches = _batches(node, replica, log.log_start_offset, log.written_offset)
                logs.setdefault(replica.topic_partition, {})[replica.partition.broker_id] = tuple(
                    batches
                )
        for topic_partition, by_broker in logs.items():
            self._checker.observe(LogsAudited(topic_partition, by_broker))


def _batches(node: BrokerNode, replica: Replica, start: int, end: int) -> list[Batch]:
    """Return the batches that begin in a range of offsets, from the log's files."""
    found: list[Batch] = []
    segments = replica.log.segments
    for number, segment in enumerate(segments):
        is_below = number + 1 < len(segments) and segments[number + 1].base_offset <= start
        if is_below or segment.base_offset >= end:
            continue
        path = f"{replica.log.path}/{segment_name(segment.base_offset)}.log"
        content = node.node.disk.content(path)
        if content is None:
            continue
        whole = memoryview(content)[: segment.size]
        for header in walk_complete(whole):
            if start <= header.base_offset < end:
                last = header.base_offset + header.last_offset_delta
                epoch = header.partition_leader_epoch
                if replica.log.config.is_compacted:
                    records = _records(whole, header.position)
                    found.append(Batch(header.base_offset, last, epoch, 0, records))
                else:
                    found.append(Batch(header.base_offset, last, epoch, header.crc))
    return found


def _records(log: memoryview, position: int) -> tuple[tuple[int, int], ...]:
    """Return the offsets of a batch's records, each with a checksum of its key and value."""
    return tuple(
        (record.offset, crc32(b"%b %b" % (record.key or b"", record.value or b"")))
        for record in decode_batch(log, position)
    )


def read_states(registry: SimulatedRegistry) -> dict[TopicPartition, StateNode]:
    """Return the states of all partitions that have one."""
    states: dict[TopicPartition, StateNode] = {}
    for topic in registry.children(znodes.TOPICS):
        for name in registry.children(f"{znodes.topic_path(topic)}/partitions"):
            data = registry.data(znodes.state_path(topic, int(name)))
            if data:
                states[TopicPartition(topic, int(name))] = StateNode.decode(data)
    return states
