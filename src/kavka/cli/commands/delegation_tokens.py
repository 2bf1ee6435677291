"""`kavka delegation-tokens`: create, renew, expire and describe them, as `kafka-delegation-tokens.sh` does."""

from __future__ import annotations

import sys
import time
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Final

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, Given, Option, OptionSet, missing
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_error, print_rows
from kavka.cli.json_rows.entities import token_rows
from kavka.cli.text.java_errors import spelt_together
from kavka.client.admin.admin import Admin
from kavka.client.admin.delegation_tokens import DelegationToken
from kavka.core.access.entries import Principal

_FORM = "in the form principalType:name, User:alice say"
OPTIONS = OptionSet(
    "This tool helps to create, renew, expire, or describe delegation tokens.",
    Option("create", "Create a token, for yourself or for --owner-principal."),
    Option("renew", "Have a token hold for --renew-time-period from now."),
    Option("expire", "Have a token end after --expiry-time-period."),
    Option("describe", "Print the tokens of --owner-principal, or all that you may see."),
    Option("owner-principal", f"The owner, {_FORM}.", "owner", value_is_optional=True),
    Option(
        "renewer-principal",
        f"Who may renew and expire the token besides its owner, {_FORM}; it may be repeated.",
        "renewer",
        value_is_optional=True,
    ),
    Option(
        "max-life-time-period",
        "Milliseconds beyond which the token cannot be renewed; -1 is the brokers' delegation.token.max.lifetime.ms.",
        "ms",
        value_is_optional=True,
        value_is_number=True,
    ),
    Option(
        "renew-time-period",
        "Milliseconds from now; -1 is the brokers' delegation.token.expiry.time.ms.",
        "ms",
        value_is_optional=True,
        value_is_number=True,
    ),
    Option(
        "expiry-time-period",
        "Milliseconds from now; -1 removes the token at once.",
        "ms",
        value_is_optional=True,
        value_is_number=True,
    ),
    Option("hmac", "The HMAC of the token, as --create prints it.", "hmac", value_is_optional=True),
    JSON,
)

_ACTIONS: Final = ("create", "renew", "expire", "describe")
_NEEDED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_FORBIDDEN: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": (
        "renewer-principal",
        "max-life-time-period",
        "expiry-time-period",
        "owner-principal",
    ),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
_ROW: Final = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEAD: Final = (
    *("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS"),
    *("ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when the options do not go together or a broker refuses."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    action = given.one_action(*_ACTIONS, before_last=" or ")
    given.require("bootstrap-server", "command-config", *_NEEDED[action])
    given.forbid(action, _FORBIDDEN[action])
    try:
        work = _Work(given)
    except ValueError as error:
        return print_error(error) if given.has("json") else _failed(error)
    act = {
        "create": work.create,
        "renew": work.renew,
        "expire": work.expire,
        "describe": work.describe,
    }[action]
    return with_admin(given, act, _failed)


def _failed(error: Exception) -> int:
    print(spelt_together(error), file=sys.stderr)
    return 1


class _Work:
    """The actions, with what the options say."""

    def __init__(self, given: Given) -> None:
        """Read the options. Raise ValueError for a principal or an HMAC that is none."""
        self._owners = _principals(given, "owner-principal")
        self._renewers = _principals(given, "renewer-principal")
        self._lifetime_ms = _period(given, "max-life-time-period")
        self._renewal_ms = _period(given, "renew-time-period")
        self._expiry_ms = _period(given, "expiry-time-period")
        self._hmac = given.one("hmac") or ""
        self._decoded = _decoded(self._hmac)
        self._is_json = given.has("json")

    def _say(self, text: str, end: str = "\n") -> None:
        """Print words that are not JSON."""
        if not self._is_json:
            print(text, end=end)

    def _print_end(self, verb: str, expiry_ms: int) -> None:
        if self._is_json:
            print_rows(shapes.TOKEN_END, [{"expiry_ms": expiry_ms}])
        else:
            print(f"Completed {verb} operation. New expiry date : {_date(expiry_ms)}", end="")

    def _print_tokens(self, tokens: Sequence[DelegationToken]) -> None:
        if self._is_json:
            print_rows(shapes.TOKEN, token_rows(tokens))
        else:
            _print_tokens(tokens)

    async def create(self, admin: Admin) -> int:
        """Create a token, and print it."""
        self._say(
            f"Calling create token operation with renewers :{_listed(self._renewers)} , "
            f"max-life-time-period :{self._lifetime_ms}"
        )
        token = await admin.create_delegation_token(
            self._renewers,
            owner=self._owners[0] if self._owners else None,
            max_lifetime_ms=self._lifetime_ms,
        )
        self._say(f"Created delegation token with tokenId : {token.token_id}")
        self._print_tokens([token])
        return 0

    async def renew(self, admin: Admin) -> int:
        """Renew a token, and print its end."""
        self._say(
            f"Calling renew token operation with hmac :{self._hmac} , renew-time-period :{self._renewal_ms}"
        )
        expiry_ms = await admin.renew_delegation_token(self._decoded, period_ms=self._renewal_ms)
        self._print_end("renew", expiry_ms)
        return 0

    async def expire(self, admin: Admin) -> int:
        """Change the end of a token, and print it."""
        self._say(
            f"Calling expire token operation with hmac :{self._hmac} , expire-time-period :{self._expiry_ms}"
        )
        expiry_ms = await admin.expire_delegation_token(self._decoded, period_ms=self._expiry_ms)
        self._print_end("expire", expiry_ms)
        return 0

    async def describe(self, admin: Admin) -> int:
        """Print tokens."""
        if self._owners:
            self._say(f"Calling describe token operation for owners: {_listed(self._owners)}")
        else:
            self._say("Calling describe token operation for current user.")
        tokens = await admin.describe_delegation_tokens(self._owners or None)
        self._say(f"Total number of tokens : {len(tokens)}", end="")
        self._print_tokens(tokens)
        return 0


def _principals(given: Given, option: str) -> list[Principal]:
    return [Principal.parse(text.strip()) for text in given.all(option)]


def _period(given: Given, option: str) -> int:
    """Return milliseconds; -1 where the option is not given, and needs not be."""
    if given.has(option) and not given.all(option):
        raise ValueError(missing(option))
    value = given.integer(option, bits=64)
    return -1 if value is None else value


def _decoded(hmac: str) -> bytes:
    try:
        return b64decode(hmac, validate=True)
    except ValueError:
        raise ValueError("--hmac is not base64") from None


def _listed(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _print_tokens(tokens: Sequence[DelegationToken]) -> None:
    print(_ROW.format(*_HEAD))
    for token in tokens:
        row = (
            token.token_id,
            token.password,
            str(token.owner),
            str(token.requester),
            _listed(token.renewers),
            _date(token.issue_ms),
            _date(token.expiry_ms),
            _date(token.max_ms),
        )
        print(_ROW.format(*row))


def _date(time_ms: int) -> str:
    """Return a local time, as the script shows it."""
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(time_ms // 1000))
