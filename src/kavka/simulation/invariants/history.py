"""History: records that were read never change."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import Audited, Deleted, Event, Read, UncleanElection
from kavka.simulation.invariants.invariant import Invariant, Violation


class RecordsNeverChange(Invariant):
    """Two readers never see different values at one offset, and what was read is found by the audit.

    But what an unclean election lost.
    """

    says = "a record that was read never changes, for any reader"

    def __init__(self) -> None:
        """Begin without records."""
        self._read: dict[TopicPartition, dict[int, bytes]] = {}
        self._lost: dict[TopicPartition, frozenset[bytes]] = {}
        self._deleted: dict[TopicPartition, int] = {}

    def observe(self, event: Event) -> None:
        """Compare what is read with what was read before."""
        match event:
            case UncleanElection(partition=partition):
                lost = event.lost | event.moved
                self._lost[partition] = self._lost.get(partition, frozenset()) | lost
                read = self._read.get(partition, {})
                deleted = self._deleted.get(partition, 0)  # offsets that may be written again
                self._read[partition] = {
                    offset: value
                    for offset, value in read.items()
                    if value not in lost and offset >= deleted
                }
            case Deleted(partition, offset):
                self._deleted[partition] = max(offset, self._deleted.get(partition, 0))
            case Read(_, partition, _, value) if value in self._lost.get(partition, ()):
                pass
            case Read(reader, partition, offset, value):
                before = self._read.setdefault(partition, {}).setdefault(offset, value)
                if before != value:
                    raise Violation(
                        f"{reader} read {value!r} at {partition} offset {offset}, before it was {before!r}"
                    )
            case Audited(partition, log_start_offset, _, records):
                found = dict(records)
                for offset, value in self._read.get(partition, {}).items():
                    if offset >= log_start_offset and found.get(offset) != value:
                        raise Violation(
                            f"{partition} offset {offset} was read as {value!r}, now it is {found.get(offset)!r}"
                        )
            case _:
                pass
