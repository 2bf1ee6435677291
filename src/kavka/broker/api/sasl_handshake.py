"""SaslHandshake: the client chooses a SASL mechanism, first and whenever it authenticates again."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import LastResponse, SecondStage
from kavka.broker.security.sasl_connection import SaslConnection
from kavka.errors import ErrorCode
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(
    context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | SecondStage:
    """Begin the exchange; a mechanism that is not offered closes the connection behind the list of those that are."""
    sasl = context.session.sasl
    if not isinstance(sasl, SaslConnection):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    reply = sasl.handshake(request.mechanism, context.version)
    response = SaslHandshakeResponse(error_code=reply.code, mechanisms=list(reply.mechanisms))
    return SecondStage(_later(sasl, response)) if reply.closes else response


async def _later(sasl: SaslConnection, response: SaslHandshakeResponse) -> LastResponse:
    await sasl.delay()
    return LastResponse(response)
