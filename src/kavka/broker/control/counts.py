"""Counters of the controller; a broker keeps them when another is elected."""

from __future__ import annotations

from kavka.core.controller.election import is_unclean
from kavka.core.controller.records import Record, StateCreated, StateWritten
from kavka.core.controller.state import NO_LEADER, ClusterState
from kavka.metrics.timings import Timings


class ControllerCounts:
    """Kafka's ControllerStats."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.events: dict[str, Timings] = {}
        """Durations by event class: from the start of an event until it is written and propagated."""
        self.queued = Timings()
        """Durations from an event's arrival until it is handled."""
        self.elections = 0
        """Leaders that were elected, one for each partition."""
        self.unclean_elections = 0

    def handled(self, event: object, took_ms: int) -> None:
        """Count an event that was taken to its end."""
        name = type(event).__name__
        timings = self.events.get(name)
        if timings is None:
            timings = self.events[name] = Timings()
        timings.record(took_ms)

    def written(self, record: Record, state: ClusterState) -> None:
        """Count the election that a record is, if it is one; `state` is the state before it."""
        if isinstance(record, StateCreated):
            self.elections += 1
        elif isinstance(record, StateWritten):
            known = state.leadership(record.topic_partition)
            node = record.node
            if known is not None and node.leader not in (NO_LEADER, known.node.leader):
                self.elections += 1
                self.unclean_elections += is_unclean(known.node, node)
