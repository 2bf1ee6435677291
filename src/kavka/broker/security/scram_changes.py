"""Changes of users' SCRAM credentials, with the checks and texts of Apache Kafka 3.9 (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.core.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_NUMBERS,
    ScramCredential,
)
from kavka.errors import ErrorCode
from kavka.values import frozen
from kavka.wire.stored.znodes import UNSTORABLE

_UNKNOWN: Final = "Unknown SCRAM mechanism"
_EMPTY: Final = "Username must not be empty"


class Upsertion:
    """A credential that is made or replaced. Its text shows none of it."""

    __slots__ = ("iterations", "mechanism", "salt", "salted_password", "user")

    def __init__(
        self, user: str, mechanism: int, iterations: int, salt: bytes, salted_password: bytes
    ) -> None:
        """Take what a request carries."""
        self.user = user
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


@frozen
class Deletion:
    """A credential that goes."""

    user: str
    mechanism: int


@frozen
class Refusal:
    """The reason why a user's changes are not made."""

    code: ErrorCode
    message: str


class CheckedChanges:
    """The users of a request, in order, with what refuses their changes whatever is stored.

    Every change is counted before the first is checked, one at a time: a request may have very many.
    """

    def __init__(self) -> None:
        """Begin without changes."""
        self._named: Counter[tuple[str, int]] = Counter()
        self.outcomes: dict[str, Refusal | None] = {}
        """None for a user whose changes may be made."""
        self.of_user: dict[str, list[Upsertion | Deletion]] = {}

    def count(self, change: Upsertion | Deletion) -> None:
        """Count a change."""
        self._named[change.user, change.mechanism] += 1

    def check(self, change: Upsertion | Deletion) -> None:
        """Add a change to those of its user."""
        refusal = self.outcomes.get(change.user) or _fault(change)
        if refusal is None and self._named[change.user, change.mechanism] > 1:
            message = "A user credential cannot be altered twice in the same request"
            refusal = Refusal(ErrorCode.DUPLICATE_RESOURCE, message)
        self.outcomes[change.user] = refusal
        self.of_user.setdefault(change.user, []).append(change)


def _fault(change: Upsertion | Deletion) -> Refusal | None:
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    if not change.user:
        return Refusal(unacceptable, _EMPTY)
    if change.user in UNSTORABLE:
        return Refusal(unacceptable, "The registry has no place for a user that is called . or ..")
    mechanism = SCRAM_NUMBERS.get(change.mechanism)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, _UNKNOWN)
    if isinstance(change, Deletion):
        return None
    if change.iterations < MIN_ITERATIONS:
        return Refusal(unacceptable, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return Refusal(unacceptable, "Too many iterations")
    if not change.salt:
        return Refusal(unacceptable, "Empty salt")
    if len(change.salted_password) != mechanism.size:
        message = f"The salted password of {mechanism.name} has {mechanism.size} bytes"
        return Refusal(unacceptable, message)
    return None


class NothingToDelete(Exception):
    """A credential that is to be deleted is not stored."""


def changed_config(
    config: Mapping[str, str], changes: Sequence[Upsertion | Deletion]
) -> dict[str, str]:
    """Return a user's settings after the changes, all other keys as they were. Raise NothingToDelete."""
    changed = dict(config)
    for change in changes:
        mechanism = SCRAM_NUMBERS[change.mechanism]
        if isinstance(change, Deletion):
            if changed.pop(mechanism.name, None) is None:
                raise NothingToDelete
        else:
            credential = ScramCredential.of_salted(
                mechanism, change.salt, change.salted_password, change.iterations
            )
            changed[mechanism.name] = credential.encode()
    return changed
