"""Unclean elections: their lost records, found on the disks when the election is written.

    replicas in sync, dead   | kept kept kept | lost lost |
    the elected replica      | kept kept kept |

A record that is acknowledged to `acks=all` is on the disk of each replica in sync. So when such replicas can only die,
and none of them continues as a deposed leader, a leader from outside of the in-sync set loses the records that one of
them has and it has not, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.core.controller.election import is_unclean
from kavka.ids import TopicPartition
from kavka.simulation.brokers.registries import SimulatedRegistry
from kavka.simulation.brokers.scenario import REGISTRY, broker_name
from kavka.simulation.checker import Checker
from kavka.simulation.cluster import BrokerNode
from kavka.simulation.events import (
    Batch,
    ControllerElected,
    StateWritten,
    UncleanElection,
)
from kavka.simulation.world import Node, World
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk_complete

_READY_MS = 3_000
LOG = ".log"

Contents = dict[Batch, tuple[tuple[int, bytes], ...]]
"""The batches of a log, in order, with the offsets and values of their records."""


class UncleanElections:
    """Passes the registry's events on; before an unclean election, what it loses."""

    def __init__(self, world: World, checker: Checker, log_dirs: Sequence[str]) -> None:
        """Observe the logs in `log_dirs` of each broker. The run sets `registry` and `brokers` when they are made."""
        self.registry: SimulatedRegistry | None = None
        self.brokers: dict[int, BrokerNode] = {}
        self._world = world
        self._checker = checker
        self._log_dirs = log_dirs

    def observe(self, event: StateWritten | ControllerElected) -> None:
        """Take what was written to the registry."""
        if isinstance(event, StateWritten):
            before = event.before
            if before is not None and is_unclean(before, event.after):
                election = self._election(event, before.in_sync_replicas)
                self._tell(election)
                self._checker.observe(election)
        self._checker.observe(event)

    def _tell(self, election: UncleanElection) -> None:
        what = f"{election.partition} elects {election.leader}, which was not in sync"
        lost = f"{len(election.lost)} records" if election.lost else "nothing"
        self._world.trace.add("registry", f"{what}: {lost} lost from {election.first_lost} on")

    def _election(self, event: StateWritten, in_sync_replicas: Sequence[int]) -> UncleanElection:
        topic_partition = TopicPartition(event.topic, event.partition)
        elected = self._logged(event.after.leader, topic_partition)
        start, end = next(iter(elected)).base_offset if elected else 0, 0
        for batch in elected:
            end = batch.last_offset + 1
        lost: Contents = {}
        for broker in in_sync_replicas:
            theirs = self._logged(broker, topic_partition)
            # What is below the start of the elected one was asked to be deleted.
            lost |= {b: r for b, r in theirs.items() if b not in elected and b.last_offset >= start}
        kept = {record for records in elected.values() for record in records}
        gone = {record for records in lost.values() for record in records} - kept
        values, left = {value for _, value in gone}, {value for _, value in kept}
        return UncleanElection(
            topic_partition,
            event.topic_id,
            event.after.leader,
            event.after.leader_epoch,
            end,
            min([end, *(batch.base_offset for batch in lost)]),
            frozenset(values - left),
            frozenset(values & left),
            frozenset(lost),
            tuple(broker for broker in in_sync_replicas if self._is_ready(broker)),
        )

    def _is_ready(self, broker: int) -> bool:
        """Return whether the controller must know that a broker is registered, and does not shut down."""
        assert self.registry is not None
        node = self.brokers[broker]
        registered_ms = self.registry.registered_ms(broker)
        if registered_ms is None or not node.node.is_running or node.is_stopping:
            return False
        return self._world.node(REGISTRY).clock.now_ms() - registered_ms >= _READY_MS

    def _logged(self, broker: int, topic_partition: TopicPartition) -> Contents:
        node = self._world.node(broker_name(broker))
        return {
            batch: records
            for log_dir in self._log_dirs
            for batch, records in logged(node, f"{log_dir}/{topic_partition}").items()
        }


def logged(node: Node, directory: str) -> Contents:
    """Return what a partition's directory holds in the page cache of its host."""
    found: Contents = {}
    inside = f"{directory}/"
    for path in sorted(p for p in node.disk.names if p.startswith(inside) and p.endswith(LOG)):
        content = memoryview(node.disk.content(path) or b"")
        for header in walk_complete(content):
            batch = Batch(
                header.base_offset,
                header.base_offset + header.last_offset_delta,
                header.partition_leader_epoch,
                header.crc,
            )
            found[batch] = tuple(
                (record.offset, record.value or b"") for record in decode_records(content, header)
            )
    return found
