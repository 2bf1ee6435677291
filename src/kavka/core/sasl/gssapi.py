"""GSSAPI, Kerberos V5 in Kafka: a security context, then the choice of a security layer (RFC 4752).

client    tokens of the context                     until both sides have it
broker    tokens of the context
client    nothing, where the last of them was the broker's
broker    wrapped: 01 000000                        "no security layer" is all that it offers, as in Kafka
client    wrapped: 01 000000 [authorization id]
broker    nothing: the client is authenticated

The authorization id is not obeyed, as in Apache Kafka: clients send their own name there, or the service's. Records are
protected by TLS, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kavka.core.sasl.exchange import (
    Challenge,
    Failure,
    GssStep,
    Outcome,
    SaslError,
    Success,
    TokenCredential,
    Verdict,
)

GSSAPI: Final = "GSSAPI"
_NO_LAYER: Final = 1
_OFFER: Final = bytes([_NO_LAYER, 0, 0, 0])
"""The layers that are offered, and the largest message that they take: none."""


class GssContext(Protocol):
    """The security context of one connection, as a library of GSSAPI has it. All calls raise SaslError."""

    @property
    def is_established(self) -> bool:
        """Return whether this side has proved and checked what it must."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take a token of the peer; return the next one for it. Blocks: it reads files, and may ask a KDC."""
        ...

    def peer(self) -> str:
        """Return the principal of the other side of an established context, with its realm."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message with its checksum, not encrypted."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of a token whose checksum holds."""
        ...


class GssapiServer:
    """The broker's side. Steps of the context are questions: the shell runs them where they may block."""

    def __init__(self, context: GssContext, user_of: Callable[[str], str]) -> None:
        """Accept by this context; `user_of` returns the user of a principal, or raises SaslError."""
        self._context = context
        self._user_of = user_of
        self._user = ""
        self._has_offered = False

    def respond(self, token: bytes) -> Outcome | GssStep:
        """Take a token of the client."""
        if self._context.is_established:
            return self._take(token)
        return GssStep(lambda: self._take(token))

    def verdict(self, result: Verdict) -> Outcome:
        """Take the outcome of a step."""
        assert not isinstance(result, TokenCredential)
        return result

    def _take(self, token: bytes) -> Outcome:
        try:
            if self._has_offered:
                return self._chosen(token)
            if not self._context.is_established:
                return self._stepped(token)
            if token:
                return Failure("a token after the context was established, where none is expected")
            return self._offer()
        except SaslError as error:
            return Failure(str(error))

    def _stepped(self, token: bytes) -> Outcome:
        if not token:
            return Failure("an empty token before the context is established")
        output_token = self._context.step(token)
        if self._context.is_established:
            self._user = self._user_of(self._context.peer())
            if not output_token:
                return self._offer()
        return Challenge(output_token)

    def _offer(self) -> Outcome:
        self._has_offered = True
        return Challenge(self._context.wrap(_OFFER))

    def _chosen(self, token: bytes) -> Outcome:
        message = self._context.unwrap(token)
        if len(message) < len(_OFFER):
            return Failure("a choice of security layer that is too short")
        if message[0] != _NO_LAYER:
            return Failure(
                "the client chose a security layer, and Kafka has none: its quality of protection must be auth"
            )
        return Success(self._user)


class GssapiClient:
    """The side that connects."""

    def __init__(self, context: GssContext, first: bytes) -> None:
        """Continue a context whose first token is `first`; it must be one that the broker has to prove itself in."""
        self._context = context
        self._first = first
        self._has_chosen = False
        self.is_complete = False

    def first(self) -> bytes:
        """Return the context's first token."""
        return self._first

    def respond(self, token: bytes) -> bytes | None:
        """Return the response to a token of the broker; None behind the last. Raise SaslError."""
        if self._has_chosen:
            if token:
                raise SaslError("the broker sent a token after the end of the exchange")
            self.is_complete = True
            return None
        if not self._context.is_established:
            return self._context.step(token)
        offer = self._context.unwrap(token)
        if len(offer) != len(_OFFER):
            raise SaslError("the broker's offer of security layers cannot be read")
        if not offer[0] & _NO_LAYER:
            raise SaslError(
                "the broker demands a security layer, which Kafka's clients do not have"
            )
        self._has_chosen = True
        return self._context.wrap(_OFFER)
