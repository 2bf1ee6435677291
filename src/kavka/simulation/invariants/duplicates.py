"""Idempotence (KIP-98): sending again after a lost response does not write again."""

from __future__ import annotations

from kavka.simulation.events import Audited, Event, UncleanElection
from kavka.simulation.invariants.invariant import Invariant, Violation


class IdempotentProducersNeverDuplicate(Invariant):
    """No value is in the log twice; all producers of a run are idempotent.

    But those that an unclean election lost: the next one may elect the replica that has them, when the producer has
    sent them again with another epoch.
    """

    says = "an idempotent producer never writes a record twice"

    def __init__(self) -> None:
        """Begin without elections."""
        self._lost: set[bytes] = set()

    def observe(self, event: Event) -> None:
        """Check that no value is at two offsets."""
        if isinstance(event, UncleanElection):
            self._lost |= event.lost | event.moved
        if isinstance(event, Audited):
            seen: dict[bytes, int] = {}
            for offset, value in event.records:
                if value in self._lost:
                    continue
                if value in seen:
                    raise Violation(
                        f"{event.partition} holds {value!r} at {seen[value]} and at {offset}"
                    )
                seen[value] = offset
