"""Failures as a page says them: a title, a sentence, and what to do. Pure."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.console.sentences import Sentence, as_is, say
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is no page: `status` is HTTP's."""

    status: int
    title: Sentence
    detail: Sentence
    advice: Sentence

    def translated(self, table: Mapping[str, str]) -> dict[str, int | str]:
        """Return it in another language, by a table of sentences."""
        texts = {name: getattr(self, name) for name in ("title", "detail", "advice")}
        return {"status": self.status} | {k: v.translated(table) for k, v in texts.items()}


class Refused(Exception):
    """A request that the console itself refuses, with the failure that it answers."""

    def __init__(self, failure: Failure) -> None:
        """Take the failure."""
        super().__init__(failure.detail)
        self.failure = failure


EXPECTED: Final = (Refused, KafkaError, OSError, sqlite3.Error)
"""Errors that a cluster, a request or the history's file causes; others are mistakes of the console."""

_NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: say(
        "Topics are created and deleted by others, too: look at the list of topics."
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: say(
        "Topics are created and deleted by others, too: look at the list of topics."
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: say("Look at the list of groups."),
    ErrorCode.BROKER_NOT_AVAILABLE: say("Look at the list of brokers."),
}
_CONFLICTS = {
    ErrorCode.TOPIC_ALREADY_EXISTS: say("Choose another name."),
    ErrorCode.NON_EMPTY_GROUP: say("Stop the members of the group first."),
    ErrorCode.UNKNOWN_MEMBER_ID: say(
        "The group has members: stop them first, or they commit over the change."
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: say("Wait until the group is stable."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: say("Stop the members of the group first."),
}


_CORRECT: Final = say("Correct the value and try again.")


def bad_request(detail: Sentence, advice: Sentence = _CORRECT) -> Refused:
    """Return the refusal of a request with a wrong value."""
    return Refused(Failure(400, say("This request cannot be answered"), detail, advice))


def not_found(detail: Sentence, advice: Sentence) -> Refused:
    """Return the refusal of a request about something that does not exist."""
    return Refused(Failure(404, say("Not found"), detail, advice))


def failure_of(error: Exception, servers: str) -> Failure:
    """Return what a page says of an error of a client; `servers` are those that it began with."""
    if isinstance(error, Refused):
        return error.failure
    if isinstance(error, AuthenticationFailed):
        return Failure(
            502,
            say("The brokers refuse the console's login"),
            as_is(str(error)),
            say(
                "Check the credential in the file of --command-config, and start the console again."
            ),
        )
    if isinstance(error, KafkaError):
        return _of_code(error)
    if isinstance(error, TimeoutError) and not isinstance(error.__cause__, ConnectionError):
        reason = as_is(str(error)) if str(error) else say("no answer in time")
        return Failure(
            504,
            say("The cluster answers too slowly"),
            say("Brokers were asked and did not answer in time: {reason}.", reason=reason),
            say("Try again. If it stays so, look at the brokers' logs and their load."),
        )
    if isinstance(error, OSError):
        return Failure(
            503,
            say("No broker can be reached"),
            as_is(f"{error}.".replace("..", ".")),
            say(
                "Check that a broker runs at {servers} and that this machine may connect to it. "
                "The console connects by itself once one answers.",
                servers=servers,
            ),
        )
    if isinstance(error, sqlite3.Error):
        return Failure(
            503,
            say("The file of the history cannot be used"),
            as_is(f"{error}."),
            say(
                "Look whether its disk is full, or the file damaged: then start the console with another one, "
                "--history FILE."
            ),
        )
    return Failure(
        500,
        say("The console has made a mistake"),
        say("{kind}: {error}", kind=type(error).__name__, error=error),
        say("The log of the console has the details; please report them."),
    )


def _of_code(error: KafkaError) -> Failure:
    code, reason = error.code, error.detail or error.code.message
    if "AUTHORIZATION" in code.name:
        return Failure(
            403,
            say("The console is not authorised for this"),
            say("{code}: {reason}", code=code.name, reason=reason),
            say(
                "Give the console's principal the ACL that is missing (see `kavka acls`), or use another credential."
            ),
        )
    if code in _NOT_FOUND:
        return Failure(
            404,
            say("Not found"),
            say("{code}: {reason}", code=code.name, reason=reason),
            _NOT_FOUND[code],
        )
    if code in _CONFLICTS:
        return Failure(
            409,
            say("The cluster refuses this now"),
            say("{code}: {reason}", code=code.name, reason=reason),
            _CONFLICTS[code],
        )
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return Failure(
            501,
            say("This cluster cannot do that"),
            say("{code}: {reason}", code=code.name, reason=reason),
            say("Its brokers are too old for it."),
        )
    if code.retriable:
        return Failure(
            503,
            say("The cluster cannot do that yet"),
            say("{code}: {reason}", code=code.name, reason=reason),
            say("Try again."),
        )
    return Failure(
        422,
        say("The cluster refuses this"),
        say("{code}: {reason}", code=code.name, reason=reason),
        say("Correct the values and try again."),
    )
