"""The verifications for one coordinator: one request in flight; the next has all that came meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from kavka.core.machine import Token
from kavka.core.verification.events import VerificationRequest

_MAX_VERIFICATIONS: Final = 1000
"""Of one request."""


class PendingVerification:
    """A verification that is not answered yet."""

    __slots__ = ("key", "left_ms", "request", "tokens")

    def __init__(self, key: Hashable, request: VerificationRequest, left_ms: int) -> None:
        """`left_ms` is for how long it is asked again while the last transaction is being completed."""
        self.key = key
        self.request = request
        self.left_ms = left_ms
        self.tokens: list[Token] = []  # what waits for it, in the order in which it came


class Moved(NamedTuple):
    """The verifications that another broker has to answer by now."""

    verifications: list[PendingVerification]
    given_up: int | None
    """The number of the request in flight that had one of them."""
    unanswered: list[PendingVerification]
    """Its other verifications."""


class CoordinatorQueue:
    """The verifications for one other broker."""

    def __init__(self) -> None:
        """Start empty."""
        self._waiting: list[PendingVerification] = []
        self._in_flight: list[PendingVerification] = []
        self._number: int | None = None  # of the request that is begun

    @property
    def needs_request(self) -> bool:
        """Return whether verifications wait, and no request is begun."""
        return self._number is None and bool(self._waiting)

    def add(self, verification: PendingVerification) -> None:
        """Add a verification to the next request."""
        self._waiting.append(verification)

    def begin(self, number: int) -> None:
        """Begin the next request."""
        self._number = number

    def take(self) -> tuple[VerificationRequest, ...]:
        """Return what the request that is begun has."""
        self._in_flight, self._waiting = _split(self._waiting)
        return tuple(dict.fromkeys(verification.request for verification in self._in_flight))

    def end(self) -> list[PendingVerification]:
        """Return the verifications of the request in flight, which has ended."""
        verifications, self._in_flight = self._in_flight, []
        self._number = None
        return verifications

    def take_moved(self, has_moved: Callable[[VerificationRequest], bool]) -> Moved:
        """Remove and return the verifications that this broker cannot answer any more.

        A request in flight with one of them is not waited for; its others get no response either.
        """
        moved, unanswered = _part(self._in_flight, has_moved)
        given_up: int | None = None
        if moved:
            given_up = self._number
            self.end()
        else:
            unanswered = []
        moved_waiting, self._waiting = _part(self._waiting, has_moved)
        moved += moved_waiting
        return Moved(moved, given_up, unanswered)


def _part(
    verifications: list[PendingVerification], has_moved: Callable[[VerificationRequest], bool]
) -> tuple[list[PendingVerification], list[PendingVerification]]:
    """Return those that have moved, and those that have not."""
    moved: list[PendingVerification] = []
    others: list[PendingVerification] = []
    for verification in verifications:
        (moved if has_moved(verification.request) else others).append(verification)
    return moved, others


def _split(
    verifications: list[PendingVerification],
) -> tuple[list[PendingVerification], list[PendingVerification]]:
    """Part what fits into one request from the rest: a transactional id is in it once, with one producer and wish."""
    producers: dict[str, tuple[int, int, bool]] = {}
    taken: list[PendingVerification] = []
    left: list[PendingVerification] = []
    for verification in verifications:
        request = verification.request
        producer = (request.producer_id, request.producer_epoch, request.adds)
        known = producers.setdefault(request.transactional_id, producer)
        fits = known == producer and len(taken) < _MAX_VERIFICATIONS
        (taken if fits else left).append(verification)
    return taken, left
