"""The authentication of a connection on the broker's side, first and again (KIP-43, KIP-152, KIP-368).

    state           request                              next
    HANDSHAKE       SaslHandshake                        TOKENS, or FAILED when the mechanism is not offered
    TOKENS          SaslAuthenticate, or after           TOKENS while the mechanism continues,
                    SaslHandshake v0 a raw token         CHECKING while the shell finds an answer,
                                                         AUTHENTICATED or FAILED
    AUTHENTICATED   SaslHandshake                        TOKENS: the client authenticates again
    FAILED          any                                  the connection is closed

A request that does not fit its state is answered ILLEGAL_SASL_STATE; then, before authentication, the connection is
closed. A client that authenticates again stays the same user by the same mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from kavka.core.sasl.exchange import (
    Challenge,
    CheckResult,
    Failure,
    Outcome,
    Question,
    ServerExchange,
    Success,
)
from kavka.errors import ErrorCode
from kavka.values import frozen

MAX_FRAMES: Final = 32
"""Frames that a client may send before it is authenticated."""
_MIN_INTERVAL_MS: Final = 1000
"""Between two authentications of one connection after the first; half of the session's life where that is less."""


class State(Enum):
    """The state of the conversation."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    CHECKING = "checking"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


@frozen
class HandshakeReply:
    """The response to SaslHandshake; the connection is closed after it if `closes`."""

    code: ErrorCode
    mechanisms: tuple[str, ...]
    closes: bool = False


@frozen
class TokenReply:
    """The response to a token; the connection is closed after it if `closes`."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0
    closes: bool = False
    reason: str = ""
    """Of a failure, for the log."""


@frozen
class Offer:
    """A mechanism that a listener offers; `max_reauth_ms` is its `connections.max.reauth.ms`, 0 for no limit."""

    begin: Callable[[], ServerExchange]
    max_reauth_ms: int = 0


class Conversation:
    """The authentication of one connection."""

    def __init__(self, offers: Mapping[str, Offer]) -> None:
        """Offer these mechanisms, in this order."""
        self._offers = offers
        self._exchange: ServerExchange | None = None
        self._mechanism = ""
        self._is_raw = False
        self._began_again_ms: int | None = None
        self._expires_ms: int | None = None
        self._lifetime_ms = 0
        self._frames = 0
        self.state = State.HANDSHAKE
        self.user: str | None = None
        """The authenticated user; it stays while the client authenticates again."""
        self.mechanism = ""
        """By which the user was authenticated."""
        self.token_id: str | None = None
        """The delegation token by which the user was authenticated; None where it was not by one."""

    @property
    def is_authenticated(self) -> bool:
        """Return whether the client may send any request."""
        return self.state is State.AUTHENTICATED

    @property
    def takes_raw_tokens(self) -> bool:
        """Return whether the next frame is a token without a header (SaslHandshake v0)."""
        return self._is_raw and self.state in (State.TOKENS, State.CHECKING)

    @property
    def tried(self) -> str:
        """The mechanism that the client chose last; empty before."""
        return self._mechanism

    def count_frame(self) -> bool:
        """Count a frame of a client that is not authenticated; return whether it may be read."""
        self._frames += 1
        return self._frames <= MAX_FRAMES and self.state is not State.FAILED

    def is_expired(self, tick_ms: int) -> bool:
        """Return whether the client had to authenticate again before now."""
        return self._expires_ms is not None and tick_ms >= self._expires_ms

    def handshake(self, mechanism: str, version: int, tick_ms: int) -> HandshakeReply:
        """Take SaslHandshake."""
        names = tuple(self._offers)
        if self.state is State.AUTHENTICATED:
            if version == 0 or self._is_too_early(tick_ms):
                return HandshakeReply(ErrorCode.ILLEGAL_SASL_STATE, names)
            self._began_again_ms = tick_ms
            self._frames = 0
        elif self.state is not State.HANDSHAKE:
            self.state = State.FAILED
            return HandshakeReply(ErrorCode.ILLEGAL_SASL_STATE, names, closes=True)
        self._mechanism = mechanism
        offer = self._offers.get(mechanism)
        if offer is None or (self.user is not None and mechanism != self.mechanism):
            self.state = State.FAILED
            if offer is not None:
                names = (self.mechanism,)
            return HandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names, closes=True)
        self._is_raw = version == 0
        self._exchange = offer.begin()
        self.state = State.TOKENS
        return HandshakeReply(ErrorCode.NONE, names)

    def _is_too_early(self, tick_ms: int) -> bool:
        """Return whether the client has authenticated again just now."""
        if self._began_again_ms is None:
            return False
        # A session that ends with its token may be shorter than the listener allows.
        lifetime_ms = self._lifetime_ms
        min_interval_ms = (
            min(_MIN_INTERVAL_MS, lifetime_ms // 2) if lifetime_ms > 0 else _MIN_INTERVAL_MS
        )
        return tick_ms - self._began_again_ms < min_interval_ms

    def token(self, token: bytes, tick_ms: int, now_ms: int) -> TokenReply | Question:
        """Take a token; a question is to be answered by `verdict`."""
        if self.state is State.AUTHENTICATED:
            return TokenReply(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication",
            )
        if self.state is not State.TOKENS:
            self.state = State.FAILED
            return TokenReply(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received where none is expected: SaslHandshake comes first",
                closes=True,
                reason="SaslAuthenticate out of order",
            )
        assert self._exchange is not None
        outcome = self._exchange.respond(token)
        if isinstance(outcome, Challenge | Success | Failure):
            return self._reply(outcome, tick_ms, now_ms)
        self.state = State.CHECKING
        return outcome

    def verdict(self, result: CheckResult, tick_ms: int, now_ms: int) -> TokenReply:
        """Take the answer to a question; a challenge is that of a mechanism whose step was the question."""
        if self.state is not State.CHECKING:  # meanwhile the client has sent what it may not
            return TokenReply(ErrorCode.ILLEGAL_SASL_STATE, closes=True, reason="out of order")
        self.state = State.TOKENS
        if isinstance(result, Challenge):
            return self._reply(result, tick_ms, now_ms)
        assert self._exchange is not None
        return self._reply(self._exchange.verdict(result), tick_ms, now_ms)

    def _reply(self, outcome: Outcome, tick_ms: int, now_ms: int) -> TokenReply:
        match outcome:
            case Challenge(token):
                return TokenReply(token=token)
            case Success():
                return self._succeeded(outcome, tick_ms, now_ms)
            case Failure(reason, message):
                return self._failed(reason, message)

    def _succeeded(self, success: Success, tick_ms: int, now_ms: int) -> TokenReply:
        if self.user is not None and success.user != self.user:
            message = (
                "Cannot change principals during re-authentication from "
                f"User.{self.user}: User.{success.user}"
            )
            return self._failed(message, message)
        lifetimes = []
        if (max_reauth_ms := self._offers[self._mechanism].max_reauth_ms) > 0:
            lifetimes.append(max_reauth_ms)
        if success.expires_ms is not None:
            lifetimes.append(max(success.expires_ms - now_ms, 1))
        lifetime_ms = min(lifetimes, default=0)
        self._expires_ms = tick_ms + lifetime_ms if lifetimes else None
        self._lifetime_ms = lifetime_ms
        self.user, self.mechanism = success.user, self._mechanism
        self.token_id = success.token_id
        self.state, self._exchange = State.AUTHENTICATED, None
        return TokenReply(token=success.token, lifetime_ms=lifetime_ms)

    def _failed(self, reason: str, message: str | None) -> TokenReply:
        self.state, self._exchange = State.FAILED, None
        if message is None:
            what = "authentication" if self.user is None else "re-authentication"
            message = (
                f"Authentication failed during {what} due to invalid credentials "
                f"with SASL mechanism {self._mechanism}"
            )
        return TokenReply(ErrorCode.SASL_AUTHENTICATION_FAILED, message, closes=True, reason=reason)
