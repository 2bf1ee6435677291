"""Consumer groups: owners of partitions, and guarantees of committed offsets."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import (
    Assigned,
    Audited,
    Committed,
    CommittedSeen,
    Deleted,
    Event,
    PowerLost,
    Processed,
    UncleanElection,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class OneOwnerPerPartition(Invariant):
    """In one generation of a group a partition is given to one member."""

    says = "a partition has one owner in each generation of a group"

    def __init__(self) -> None:
        """Begin without groups."""
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}

    def observe(self, event: Event) -> None:
        """Note assignments."""
        if isinstance(event, PowerLost):
            self._owners.clear()  # generations that were not synced are allocated again
        if isinstance(event, Assigned):
            for partition in event.partitions:
                key = (event.group, event.generation, partition)
                owner = self._owners.setdefault(key, event.member)
                if owner != event.member:
                    raise Violation(
                        f"{partition} belongs to {owner} and to {event.member} in generation {event.generation}"
                    )


class CommittedOffsetsStay(Invariant):
    """A request for a group's offset never returns less than was confirmed before.

    Members of these runs never commit backwards, except where an unclean election has lost records: a member with a
    position beyond the end begins again.
    """

    says = "a committed offset survives and never goes back"

    def __init__(self) -> None:
        """Begin without groups."""
        self._committed: dict[tuple[str, TopicPartition], list[tuple[float, int]]] = {}
        self._cut: set[TopicPartition] = set()

    def observe(self, event: Event) -> None:
        """Compare returned with confirmed offsets."""
        match event:
            case Committed(group, _, partition, offset, at_s):
                self._committed.setdefault((group, partition), []).append((at_s, offset))
            case UncleanElection(partition=partition, lost_batches=lost) if lost:
                self._cut.add(partition)
            case CommittedSeen(group, partition, offset, asked_s) if partition not in self._cut:
                known = self._committed.get((group, partition), [])
                confirmed = max((there for at_s, there in known if at_s <= asked_s), default=None)
                if confirmed is not None and (offset is None or offset < confirmed):
                    raise Violation(
                        f"{group} had committed {confirmed} for {partition}, now it is {offset}"
                    )
            case _:
                pass


class CommittedRecordsWereProcessed(Invariant):
    """No record is skipped: below a committed offset, each record of the log was processed by some member.

    An offset that was committed before an unclean election says nothing of what came in the place of lost records.
    Nor does it after a loss of power, where the model lets that lose records: the group has processed what was there.
    """

    says = "everything below a committed offset was processed"

    def __init__(self, *, loses_records_with_power: bool = False) -> None:
        """Begin without groups."""
        self._loses_records_with_power = loses_records_with_power
        self._processed: dict[tuple[str, TopicPartition], set[bytes]] = {}
        self._places: dict[tuple[str, TopicPartition], set[int]] = {}
        self._places_before_loss: dict[tuple[str, TopicPartition], set[int]] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._deleted: dict[TopicPartition, int] = {}
        self._kept: dict[TopicPartition, int] = {}

    def observe(self, event: Event) -> None:
        """Compare the audit with what was processed."""
        match event:
            case Processed(group, _, partition, offset, value):
                self._processed.setdefault((group, partition), set()).add(value)
                self._places.setdefault((group, partition), set()).add(offset)
            case PowerLost() if self._loses_records_with_power:
                self._places_before_loss = {
                    group_partition: set(found) for group_partition, found in self._places.items()
                }
            case UncleanElection(partition=partition, first_lost=first_lost):
                self._kept[partition] = min(first_lost, self._kept.get(partition, first_lost))
            case Deleted(partition, offset):
                self._deleted[partition] = max(offset, self._deleted.get(partition, 0))
            case Committed(group, _, partition, offset, _):
                key = (group, partition)
                self._committed[key] = max(offset, self._committed.get(key, 0))
            case Audited(partition, _, _, records):
                for (group, of), committed in self._committed.items():
                    if of == partition:
                        self._check(group, partition, committed, records)
            case _:
                pass

    def _first_to_check(self, partition: TopicPartition) -> int:
        return 0

    def _check(
        self,
        group: str,
        partition: TopicPartition,
        committed: int,
        records: tuple[tuple[int, bytes], ...],
    ) -> None:
        processed = self._processed.get((group, partition), set())
        replaced = self._places_before_loss.get((group, partition), set())
        start = self._first_to_check(partition)
        end = min(committed, self._kept.get(partition, committed))
        for offset, value in records:
            if start <= offset < end and value not in processed and offset not in replaced:
                raise Violation(
                    f"{group} committed {committed} for {partition}, but offset {offset} ({value!r}) was not processed"
                )


class CommittedRecordsWereProcessedOrDeleted(CommittedRecordsWereProcessed):
    """The same for replicated logs: records that were asked to be deleted may be gone for a reader and come back.

    A deletion that was not answered holds on one replica perhaps, and is undone when another is elected.
    """

    says = "everything below a committed offset was processed, or asked to be deleted"

    def _first_to_check(self, partition: TopicPartition) -> int:
        return self._deleted.get(partition, 0)
