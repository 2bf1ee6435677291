"""Idempotence (KIP-98): sending again after a lost answer does not write again."""

from __future__ import annotations

from kavka.testing.simulation.events import Audited, Event
from kavka.testing.simulation.invariants.invariant import Invariant, Violation


class IdempotentProducersNeverDuplicate(Invariant):
    """No value is in the log twice; all producers of a run are idempotent."""

    says = "an idempotent producer never writes a record twice"

    def observe(self, event: Event) -> None:
        """Look for the same value at two offsets."""
        if isinstance(event, Audited):
            seen: dict[bytes, int] = {}
            for offset, value in event.records:
                if value in seen:
                    raise Violation(
                        f"{event.partition} holds {value!r} at {seen[value]} and at {offset}"
                    )
                seen[value] = offset
