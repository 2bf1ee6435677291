"""The cluster observer: it reports changes only, and its reports are the present state."""

from __future__ import annotations

import pytest

from kavka.simulation.brokers.run import ClusterRun
from kavka.simulation.events import ClusterObserved, Event, ReplicaSeen
from kavka.simulation.invariants import Invariant

pytestmark = pytest.mark.simulation


class Memory(Invariant):
    """Keeps the last report of each replica."""

    says = "nothing is forgotten"

    def __init__(self) -> None:
        self.reported: dict[tuple[int, int, str], ReplicaSeen] = {}
        self.looks = 0

    def observe(self, event: Event) -> None:
        if isinstance(event, ClusterObserved):
            self.looks += 1
            for seen in event.replicas:
                self.reported[seen.broker, seen.run, str(seen.partition)] = seen


def test_every_replica_is_reported_as_it_is_at_each_observation() -> None:
    run = ClusterRun(34)
    memory = Memory()
    run.checker._invariants.append(memory)
    looks = 0
    observer = run._observer
    look = observer.observe

    def look_and_compare() -> None:
        nonlocal looks
        looks += 1
        look()
        for node, replica in observer._replicas():
            reported = memory.reported[
                replica.partition.broker_id, node.node.starts, str(replica.topic_partition)
            ]
            assert reported.log_end_offset == replica.log.log_end_offset
            assert reported.log_start_offset == replica.log.log_start_offset
            assert reported.high_watermark == replica.partition.high_watermark
            assert reported.leads == replica.partition.is_leader
            assert reported.leader_epoch == replica.partition.leader_epoch
            assert reported.topic_id == replica.partition.topic_id

    observer.observe = look_and_compare  # type: ignore[method-assign]
    assert run.run().passed
    assert 0 < memory.looks < looks
