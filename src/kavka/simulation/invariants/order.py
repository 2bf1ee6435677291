"""Order: the records of one producer in one partition stand as they were sent, and nothing else stands there."""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.simulation.events import Audited, Event, Sent, UncleanElection
from kavka.simulation.invariants.invariant import Invariant, Violation


class RecordsKeepTheirOrder(Invariant):
    """For each producer and partition the numbers never go down, and every value was sent.

    A record that an unclean election lost has its place where it was sent again, perhaps.
    """

    says = "records of a producer keep their order, and no record appears that was not sent"

    def __init__(self) -> None:
        """Begin without records."""
        self._sent: dict[tuple[TopicPartition, bytes], tuple[str, int]] = {}
        self._lost: set[bytes] = set()

    def observe(self, event: Event) -> None:
        """Remember what was sent; walk through what the audit found."""
        match event:
            case Sent(producer, partition, number, value):
                self._sent[partition, value] = (producer, number)
            case UncleanElection(lost=lost, moved=moved):
                self._lost |= lost | moved
            case Audited(partition, _, _, records):
                last: dict[str, int] = {}
                for offset, value in records:
                    if (partition, value) not in self._sent:
                        raise Violation(
                            f"{partition} offset {offset} holds {value!r}, which was not sent there"
                        )
                    if value in self._lost:
                        continue
                    producer, number = self._sent[partition, value]
                    if number < last.get(producer, -1):
                        raise Violation(
                            f"{partition} offset {offset}: record {number} of {producer} after {last[producer]}"
                        )
                    last[producer] = number
            case _:
                pass
