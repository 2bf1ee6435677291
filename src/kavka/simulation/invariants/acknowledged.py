"""Durability: what was acknowledged is there."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import (
    Acknowledged,
    Audited,
    Deleted,
    Event,
    UncleanElection,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class AcknowledgedRecordsSurvive(Invariant):
    """Every acknowledged record that was not deleted is in the log, at the acknowledged offset.

    But those that an unclean election lost.
    """

    says = "a record that was acknowledged is never lost"

    def __init__(self) -> None:
        """Begin without records."""
        self._acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self._somewhere: dict[TopicPartition, list[bytes]] = {}
        self._deleted: dict[TopicPartition, int] = {}
        self._lost: dict[TopicPartition, frozenset[bytes]] = {}
        self._moved: dict[TopicPartition, frozenset[bytes]] = {}

    def observe(self, event: Event) -> None:
        """Remember acknowledgements; compare them with the audit."""
        match event:
            case UncleanElection(partition=partition, lost=lost, moved=moved):
                self._lose(partition, lost, moved)
            case Acknowledged(_, partition, _, value) if value in self._lost.get(partition, ()):
                pass
            case Acknowledged(_, partition, offset, value) if (
                offset == -1 or value in self._moved.get(partition, ())
            ):
                self._somewhere.setdefault(partition, []).append(value)
            case Acknowledged(_, partition, offset, value):
                there = self._acknowledged.setdefault(partition, {}).setdefault(offset, value)
                if there != value:
                    raise Violation(
                        f"{partition} offset {offset} was acknowledged for {there!r} and {value!r}"
                    )
            case Deleted(partition, offset):
                self._deleted[partition] = max(offset, self._deleted.get(partition, 0))
            case Audited(partition, log_start_offset, _, records):
                deleted = self._deleted.get(partition, 0)
                if log_start_offset > deleted:
                    raise Violation(
                        f"{partition} starts at {log_start_offset}, deleted was up to {deleted}"
                    )
                found = dict(records)
                for offset, value in self._acknowledged.get(partition, {}).items():
                    if offset >= log_start_offset and found.get(offset) != value:
                        raise Violation(
                            f"{partition} offset {offset}: acknowledged {value!r}, found {found.get(offset)!r}"
                        )
                there_too = set(found.values())
                for value in self._somewhere.get(partition, []):
                    if log_start_offset == 0 and value not in there_too:
                        raise Violation(f"{partition}: {value!r} was acknowledged and is nowhere")
            case _:
                pass

    def _lose(
        self, partition: TopicPartition, lost: frozenset[bytes], moved: frozenset[bytes]
    ) -> None:
        self._lost[partition] = self._lost.get(partition, frozenset()) | lost
        self._moved[partition] = self._moved.get(partition, frozenset()) | moved
        there = self._acknowledged.get(partition, {})
        deleted = self._deleted.get(
            partition, 0
        )  # the elected log may end below it, and be written again
        self._acknowledged[partition] = {
            offset: value
            for offset, value in there.items()
            if value not in lost | moved and offset >= deleted
        }
        somewhere = [
            *self._somewhere.get(partition, []),
            *sorted(moved.intersection(there.values())),
        ]
        self._somewhere[partition] = [value for value in somewhere if value not in lost]
