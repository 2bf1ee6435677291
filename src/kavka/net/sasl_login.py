"""The SASL exchange of a connection to a broker, on the side that connects (KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kavka.core.sasl.exchange import ClientExchange, SaslError
from kavka.core.sasl.plain import PLAIN, PlainClient
from kavka.core.sasl.scram import NONCE_BYTES, ScramClient, new_nonce
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.errors import AuthenticationFailed, ErrorCode
from kavka.io import Random
from kavka.net.peer_security import Negotiated
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_MAX_TOKENS: Final = 10
_SESSION_SHARE: Final = 0.85
_SESSION_JITTER: Final = 0.10
"""A session is renewed after 85 to 95% of its lifetime, as by Kafka's clients."""
_FIRST_VERSION: Final = 1
"""Of SaslHandshake: behind version 0 tokens have no header, and a refusal has no text."""

Begin = Callable[[], Awaitable[ClientExchange]]
"""Begins the exchange of one connection. Raises SaslError for a credential that cannot be had."""


class MechanismLogin:
    """Implements `peer_security.SaslLogin` by one mechanism. Its text shows no secret."""

    def __init__(self, mechanism: str, begin: Begin, random: Random) -> None:
        """Authenticate each connection by an exchange of its own."""
        self.mechanism = mechanism
        self._begin = begin
        self._random = random

    def __repr__(self) -> str:
        """Name the mechanism."""
        return f"MechanismLogin({self.mechanism})"

    async def authenticate(self, peer: Negotiated, host: str, timeout_ms: int) -> int:
        """Authenticate; return after how many milliseconds to do so again, 0 for never.

        Raise AuthenticationFailed, KafkaError UNSUPPORTED_VERSION for a broker before 1.0, or OSError.
        """
        await self._choose(peer, timeout_ms)
        try:
            exchange = await self._begin()
            token: bytes | None = exchange.first()
            for _ in range(_MAX_TOKENS):
                assert token is not None
                response = await self._send(peer, token, timeout_ms)
                # Off the loop: SCRAM's key takes milliseconds.
                token = await asyncio.to_thread(exchange.respond, response.auth_bytes)
                if token is None:
                    break
            if token is not None or not exchange.is_complete:
                raise SaslError("the broker ended the exchange too early, or not at all")
        except SaslError as error:
            raise AuthenticationFailed(self.mechanism, str(error)) from None
        share = _SESSION_SHARE + _SESSION_JITTER * self._random.random()
        return int(share * response.session_lifetime_ms)

    async def _choose(self, peer: Negotiated, timeout_ms: int) -> None:
        request = SaslHandshakeRequest(mechanism=self.mechanism)
        version = max(peer.version_of(17), _FIRST_VERSION)
        response: SaslHandshakeResponse = await peer.send(request, version, timeout_ms)
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms)
            raise AuthenticationFailed(self.mechanism, f"the broker offers {offered} only", code)
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            reason = "the broker expects no SASL here: is security.protocol that of its listener?"
            raise AuthenticationFailed(self.mechanism, reason, code)
        if code is not ErrorCode.NONE:
            raise AuthenticationFailed(self.mechanism, code.message, code)

    async def _send(
        self, peer: Negotiated, token: bytes, timeout_ms: int
    ) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        response: SaslAuthenticateResponse = await peer.send(request, None, timeout_ms)
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            raise AuthenticationFailed(self.mechanism, response.error_message or code.message, code)
        return response


def password_login(
    mechanism: str, user: str, password: str, random: Random, *, token_auth: bool = False
) -> MechanismLogin:
    """Return the login of a user by PLAIN or SCRAM; `token_auth` for a delegation token by SCRAM."""

    async def begin() -> ClientExchange:
        if mechanism == PLAIN:
            return PlainClient(user, password)
        nonce = new_nonce(random.random_bytes(NONCE_BYTES))
        scram = SCRAM_MECHANISMS[mechanism]
        return ScramClient(scram, user, password, nonce, token_auth=token_auth)

    return MechanismLogin(mechanism, begin, random)
