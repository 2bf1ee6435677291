"""Failures as a page says them: a title, a sentence, and what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is no page: `status` is HTTP's."""

    status: int
    title: str
    detail: str
    advice: str


class Refused(Exception):
    """A request that the console itself refuses, with the failure that it answers."""

    def __init__(self, failure: Failure) -> None:
        """Take the failure."""
        super().__init__(failure.detail)
        self.failure = failure


EXPECTED: Final = (Refused, KafkaError, OSError)
"""Errors that a cluster or a request causes; others are mistakes of the console."""

_NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Topics are created and deleted by others, too: look at the list of topics.",
    ErrorCode.UNKNOWN_TOPIC_ID: "Topics are created and deleted by others, too: look at the list of topics.",
    ErrorCode.GROUP_ID_NOT_FOUND: "Look at the list of groups.",
    ErrorCode.BROKER_NOT_AVAILABLE: "Look at the list of brokers.",
}
_CONFLICTS = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name.",
    ErrorCode.NON_EMPTY_GROUP: "Stop the members of the group first.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group has members: stop them first, or they commit over the change.",
    ErrorCode.REBALANCE_IN_PROGRESS: "Wait until the group is stable.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Stop the members of the group first.",
}


def bad_request(detail: str, advice: str = "Correct the value and try again.") -> Failure:
    """Return the failure of a request with a wrong value."""
    return Failure(400, "This request cannot be answered", detail, advice)


def not_found(detail: str, advice: str) -> Failure:
    """Return the failure of a request about something that does not exist."""
    return Failure(404, "Not found", detail, advice)


def failure_of(error: Exception, servers: str) -> Failure:
    """Return what a page says of an error of a client; `servers` are those that it began with."""
    if isinstance(error, Refused):
        return error.failure
    if isinstance(error, AuthenticationFailed):
        return Failure(
            502,
            "The brokers refuse the console's login",
            str(error),
            "Check the credential in the file of --command-config, and start the console again.",
        )
    if isinstance(error, KafkaError):
        return _of_code(error)
    if isinstance(error, TimeoutError) and not isinstance(error.__cause__, ConnectionError):
        reason = str(error) or "no answer in time"
        return Failure(
            504,
            "The cluster answers too slowly",
            f"Brokers were asked and did not answer in time: {reason}.",
            "Try again. If it stays so, look at the brokers' logs and their load.",
        )
    if isinstance(error, OSError):
        return Failure(
            503,
            "No broker can be reached",
            f"{error}.".replace("..", "."),
            f"Check that a broker runs at {servers} and that this machine may connect to it. "
            "The console connects by itself once one answers.",
        )
    return Failure(
        500,
        "The console has made a mistake",
        f"{type(error).__name__}: {error}",
        "The log of the console has the details; please report them.",
    )


def _of_code(error: KafkaError) -> Failure:
    code, sentence = error.code, error.detail or error.code.message
    if "AUTHORIZATION" in code.name:
        return Failure(
            403,
            "The console is not authorised for this",
            f"{code.name}: {sentence}",
            "Give the console's principal the ACL that is missing (see `kavka acls`), or use another credential.",
        )
    if code in _NOT_FOUND:
        return Failure(404, "Not found", f"{code.name}: {sentence}", _NOT_FOUND[code])
    if code in _CONFLICTS:
        return Failure(
            409, "The cluster refuses this now", f"{code.name}: {sentence}", _CONFLICTS[code]
        )
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return Failure(
            501,
            "This cluster cannot do that",
            f"{code.name}: {sentence}",
            "Its brokers are too old for it.",
        )
    if code.retriable:
        return Failure(
            503, "The cluster cannot do that yet", f"{code.name}: {sentence}", "Try again."
        )
    return Failure(
        422,
        "The cluster refuses this",
        f"{code.name}: {sentence}",
        "Correct the values and try again.",
    )
