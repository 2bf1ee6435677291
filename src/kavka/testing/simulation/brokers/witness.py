"""Who looks into the brokers of a run, between their steps, and tells the invariants what is there.

It looks at the memory of live processes and at the files of their logs, never by their doors: looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from kavka.broker.replica import Replica
from kavka.core.partition import Role
from kavka.ids import TopicId, TopicPartition
from kavka.storage.segment import segment_name
from kavka.testing.simulation.brokers.registries import RegistrySide
from kavka.testing.simulation.checker import Checker
from kavka.testing.simulation.cluster import BrokerNode
from kavka.testing.simulation.events import (
    Batch,
    BatchesSeen,
    LogsAudited,
    Looked,
    ReplicaSeen,
)
from kavka.wire.records.batch import decode_batch
from kavka.wire.records.header import walk_complete
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode

if TYPE_CHECKING:
    from kavka.testing.simulation.world import World

_LOOK_EVERY = 4
"""Moments of virtual time at which something happened."""
_COMPARE_EVERY = 200

Place = tuple[int, int, bytes, int]
Fact = tuple[int, int, TopicPartition, TopicId, bool, int, int, int, int]
"""The fields of a `ReplicaSeen`."""


class Witness:
    """Looks, for as long as the world's loop runs."""

    def __init__(
        self,
        world: World,
        brokers: Sequence[BrokerNode],
        registry: RegistrySide,
        checker: Checker,
    ) -> None:
        """Look at `brokers` from now on."""
        self._world = world
        self._brokers = brokers
        self._registry = registry
        self._checker = checker
        self._moments = 0
        self._zxid = -1
        self._states: dict[TopicPartition, StateNode] = {}
        self._compared: dict[Place, int] = {}
        self._facts: list[Fact] = []
        self._told: dict[TopicPartition, StateNode] = {}
        """The states that the last look told."""
        self.expects_throttle = False
        """Whether a throttle that holds a follower back is to be told, once."""
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
        self._moments += 1
        if self._moments % _LOOK_EVERY == 0 and not self._checker.stop.is_set():
            self.look()
        if self._moments % _COMPARE_EVERY == 0 and not self._checker.stop.is_set():
            self.compare()

    def _replicas(self) -> list[tuple[BrokerNode, Replica]]:
        return [
            (node, replica)
            for node in self._brokers
            if node.broker is not None and node.is_serving and node.node.is_running
            for replica in node.broker.replicas
            if replica.log.directory.failure is None
        ]

    def look(self) -> None:
        """Tell what the replicas are of all partitions of which anything is another than at the last look."""
        if self.expects_throttle:
            self._look_at_throttles()
        facts = self._look_at_all()
        states = self.states
        if facts == self._facts and states is self._told:
            return
        if len(facts) == len(self._facts):
            changed = [pair for pair in zip(facts, self._facts, strict=True) if pair[0] != pair[1]]
            news = {where for pair in changed for _, _, where, *_ in pair}
        else:
            news = {where for _, _, where, *_ in set(facts).symmetric_difference(self._facts)}
        if states is not self._told:
            news |= {where for where, state in states.items() if self._told.get(where) != state}
        self._facts, self._told = facts, states
        seen = tuple(ReplicaSeen(*fact) for fact in facts if fact[2] in news)
        self._checker.observe(Looked(seen, states))

    def _look_at_throttles(self) -> None:
        """Tell, once, that a leader lets a follower wait because of a throttle."""
        for node in self._brokers:
            broker = node.broker
            if broker is not None and node.is_serving and node.node.is_running:
                replication = broker.replicas.present_replication
                if replication is not None and replication.leader_throttle.holds_back:
                    self.expects_throttle = False
                    self._world.story.tell(node.node.name, "holds a follower back, it is throttled")

    def _look_at_all(self) -> list[Fact]:
        """Return what all replicas are. A seed asks for it some thousand times, so it is one expression."""
        leader = Role.LEADER
        return [
            (
                partition.broker_id,
                starts,
                replica.where,
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
            for replica in node.broker.replicas
            for partition, log in ((replica.partition, replica.log),)
            if log.directory.failure is None
        ]

    def compare(self) -> None:
        """Tell the batches below the high watermarks that were not told yet."""
        for node, replica in self._replicas():
            partition = replica.partition
            where = replica.where
            place = (
                partition.broker_id,
                node.node.starts,
                bytes(partition.topic_id) + where.topic.encode(),
                where.partition,
            )
            end = min(partition.high_watermark, replica.log.written_offset)
            start = min(self._compared.get(place, 0), end)
            batches = _batches(node, replica, max(start, replica.log.log_start_offset), end)
            self._compared[place] = end
            if batches:
                self._checker.observe(
                    BatchesSeen(partition.broker_id, partition.topic_id, where, tuple(batches))
                )

    def audit(self) -> None:
        """Tell all batches of all replicas that are not compacted: nobody writes any more."""
        logs: dict[TopicPartition, dict[int, tuple[Batch, ...]]] = {}
        for node, replica in self._replicas():
            log = replica.log
            if not log.config.is_compacted:
                batches = _batches(node, replica, log.log_start_offset, log.written_offset)
                logs.setdefault(replica.where, {})[replica.partition.broker_id] = tuple(batches)
        for where, by_broker in logs.items():
            self._checker.observe(LogsAudited(where, by_broker))


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


def read_states(registry: RegistrySide) -> dict[TopicPartition, StateNode]:
    """Return the states of all partitions that have one."""
    states: dict[TopicPartition, StateNode] = {}
    for topic in registry.children(znodes.TOPICS):
        for name in registry.children(f"{znodes.topic_path(topic)}/partitions"):
            data = registry.data(znodes.state_path(topic, int(name)))
            if data:
                states[TopicPartition(topic, int(name))] = StateNode.decode(data)
    return states
