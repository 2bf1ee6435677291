"""SaslAuthenticate: a token of the mechanism that the client has chosen."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import LastResponse, SecondStage
from kavka.broker.security.sasl_connection import Later, SaslConnection
from kavka.core.sasl.conversation import TokenReply
from kavka.errors import ErrorCode
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | SecondStage:
    """Answer the token; a failure is answered later, and closes the connection."""
    sasl = context.session.sasl
    if not isinstance(sasl, SaslConnection):
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received on a listener without SASL",
        )
    reply = sasl.token(bytes(request.auth_bytes))
    return _response(reply) if isinstance(reply, TokenReply) else SecondStage(_later(reply))


async def _later(later: Later) -> SaslAuthenticateResponse | LastResponse:
    reply = await later
    return LastResponse(_response(reply)) if reply.closes else _response(reply)


def _response(reply: TokenReply) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=reply.code,
        error_message=reply.message,
        auth_bytes=reply.token,
        session_lifetime_ms=reply.lifetime_ms,
    )
