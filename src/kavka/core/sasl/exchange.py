"""Exchanges of a SASL mechanism on both sides: tokens, the questions that it cannot decide itself, and outcomes.

respond(token)     Challenge: the client is to answer it
                   CheckPassword, CheckToken, FindDelegationToken, GssStep: the shell is to find out, and to call
                   `verdict`
                   Success, Failure: the exchange is over
verdict(result)    as `respond`, but no question
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kavka.core.sasl.scram_credential import ScramCredential, ScramMechanism
from kavka.values import frozen


class SaslError(Exception):
    """A token that breaks the rules of its mechanism, or a peer that did not prove what it had to."""


@frozen
class Challenge:
    """The exchange continues: a token for the client."""

    token: bytes


class CheckPassword:
    """A question: whether this is the user's password. Its text shows no password."""

    __slots__ = ("password", "user")

    def __init__(self, user: str, password: str) -> None:
        """Ask about a user."""
        self.user = user
        self.password = password


class CheckToken:
    """A question: whose bearer token this is. Its text does not show the token."""

    __slots__ = ("extensions", "token")

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        """Ask about a token that came with these SASL extensions (KIP-342)."""
        self.token = token
        self.extensions = extensions


@frozen
class FindDelegationToken:
    """A question: by what a login with a delegation token is checked (KIP-48)."""

    mechanism: ScramMechanism
    token_id: str


class GssStep:
    """A question: what a step of GSSAPI comes to, whose call may block. Its text shows no token."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], Outcome]) -> None:
        """Ask to call `take`, on a thread."""
        self.take = take


Question = CheckPassword | CheckToken | FindDelegationToken | GssStep


@frozen
class Success:
    """The client is `user`; `token` is the last one for it."""

    user: str
    token: bytes = b""
    expires_ms: int | None = None
    """The end of the credential's life, milliseconds since 1970; None without one."""
    token_id: str | None = None
    """The delegation token by which the client is authenticated; None where it is not by one."""


@frozen
class Failure:
    """The client is not authenticated: `reason` is for the log, `message` for the client, None for Kafka's sentence."""

    reason: str
    message: str | None = None
    challenge: bytes = b""
    """The challenge that OAUTHBEARER sends before the client confirms the failure."""


@frozen
class TokenCredential:
    """The answer to `FindDelegationToken`. A token that is not valid has a credential that no client can prove."""

    credential: ScramCredential
    owner: str = ""
    expires_ms: int = 0
    """The end of the token, milliseconds since 1970."""
    fault: str | None = None
    """Of a token that is not valid, for the log."""


Outcome = Challenge | Success | Failure
Verdict = Success | Failure | TokenCredential
CheckResult = Challenge | Verdict


class ServerExchange(Protocol):
    """A mechanism on the broker's side, for one authentication."""

    def respond(self, token: bytes) -> Outcome | Question:
        """Take a token of the client."""
        ...

    def verdict(self, result: Verdict) -> Outcome:
        """Take the answer to the question that `respond` returned."""
        ...


class ClientExchange(Protocol):
    """A mechanism on the side that connects, for one authentication."""

    def first(self) -> bytes:
        """Return the first token."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """Return the response to a token of the broker; None when there is none. Raise SaslError."""
        ...

    @property
    def is_complete(self) -> bool:
        """Return whether the broker has proved what it has to prove in this mechanism."""
        ...
