"""Counters of authentications, by listener: an observer of sessions."""

from __future__ import annotations

from collections import Counter

from kavka.broker.requests.session import Session


class Authentications:
    """Authentications since the start, first and repeated ones (KIP-368) apart."""

    def __init__(self) -> None:
        """Begin with none."""
        self.succeeded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        """Clients that have authenticated again on their connection."""
        self.repeats_failed: Counter[str] = Counter()

    def ended(self, session: Session, mechanism: str, failure: str | None) -> None:
        """Count one that succeeded, or failed."""
        if failure is None:
            counter = self.repeated if session.was_authenticated else self.succeeded
            session.was_authenticated = True
        else:
            counter = self.repeats_failed if session.was_authenticated else self.failed
        counter[session.listener_name] += 1
