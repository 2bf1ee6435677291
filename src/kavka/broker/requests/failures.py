"""Requests that end without a response: their connection is closed, as in Apache Kafka.

The one exception is ApiVersions: unknown versions are answered in version 0.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import NO_RESPONSE, LastResponse
from kavka.broker.requests.memory import RequestTooLarge
from kavka.broker.requests.refusals import FailureReason, RefusalReason, Refusals
from kavka.broker.requests.served_apis import Handler, unsupported_api_versions
from kavka.errors import ErrorCode
from kavka.net.connection import Connection, ResponseSlot
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.frame import RequestHeader, encode_response

if TYPE_CHECKING:
    from kavka.net.bounded_log import BoundedLog

log = logging.getLogger(__name__)


class RequestFailures:
    """Logs and counts the requests that are refused or given up, and closes their connections."""

    def __init__(self) -> None:
        """Begin with none."""
        self.counts = Refusals()

    @cached_property
    def _log(self) -> BoundedLog:
        from kavka.net.bounded_log import BoundedLog  # when the first line is written

        return BoundedLog(log)

    @cached_property
    def _errors(self) -> BoundedLog:
        from kavka.net.bounded_log import BoundedLog

        return BoundedLog(log, logging.ERROR)

    def close(
        self, connection: Connection, key: ApiKey | None, reason: RefusalReason, text: str
    ) -> None:
        """Close the connection of a request that is refused."""
        host = connection.peer_host
        self._log.write(host, "connection closed peer=%s reason=%s", host, text)
        self.counts.refused[key, reason] += 1
        connection.abort()

    def refuse(
        self, connection: Connection, key: ApiKey | None, error: CorruptFrame | RequestTooLarge
    ) -> None:
        """Refuse a request that does not decode, or takes too much."""
        reason = error.reason if isinstance(error, RequestTooLarge) else RefusalReason.CORRUPT
        self.close(connection, key, reason, str(error))

    def unsupported(
        self, connection: Connection, slot: ResponseSlot, header: RequestHeader
    ) -> None:
        """Refuse an API or a version that is not served; only an ApiVersions request gets a response."""
        if header.api_key == ApiKey.API_VERSIONS:
            connection.respond(
                slot, encode_response(unsupported_api_versions(), 0, header.correlation_id)
            )
        else:
            what = f"API key {header.api_key} version {header.api_version}"
            key = ApiKey(header.api_key) if header.api_key in APIS else None
            self.close(connection, key, RefusalReason.UNSUPPORTED, f"not served: {what}")

    def unauthenticated(self, context: RequestContext) -> None:
        """Refuse a request that a client may send after it is authenticated only."""
        key = context.api.key
        if context.session.was_authenticated:
            text = f"{key.title} request while the client authenticates again"
        else:
            needs = "the client needs security.protocol=SASL_SSL or SASL_PLAINTEXT"
            text = f"{key.title} request before authentication: {needs}"
        self.close(context.connection, key, RefusalReason.UNAUTHENTICATED, text)

    def expired(self, context: RequestContext) -> None:
        """Refuse a request of a client that had to authenticate again before (KIP-368)."""
        key = context.api.key
        text = f"{key.title} request after the session has expired: the client did not authenticate again"
        self.close(context.connection, key, RefusalReason.EXPIRED, text)

    def malformed(self, context: RequestContext, error: BaseException) -> None:
        """Close the connection of a request whose handler raised an unexpected error, or refuse one above a bound."""
        if isinstance(error, RequestTooLarge):
            self.refuse(context.connection, context.api.key, error)
        else:
            self._count(context, FailureReason.INTERNAL_ERROR)
            what = "request failed api=%d version=%d"
            log.error(what, context.api.key, context.version, exc_info=error)
            context.connection.abort()
        context.finish()

    def unmade(self, cause: Exception) -> Handler:
        """Return the handler of an API whose own cannot be made: each request is answered UNKNOWN_SERVER_ERROR."""

        def handle(context: RequestContext, request: Any) -> Any:
            self._count(context, FailureReason.INTERNAL_ERROR)
            key = context.api.key
            what = "handler not made, request refused api=%s peer=%s"
            host = context.connection.peer_host
            self._errors.write(host, what, key.title, host, exc_info=cause)
            if key is ApiKey.PRODUCE and request.acks == 0:
                return LastResponse(NO_RESPONSE)  # as in Apache Kafka
            from kavka.wire.refusals import refusal

            return refusal(key, request, ErrorCode.UNKNOWN_SERVER_ERROR)

        return handle

    def failed(self, context: RequestContext, error: BaseException) -> None:
        """Close the connection of a request whose second stage failed: a disk, the registry, or a bug."""
        if not isinstance(error, OSError):
            self.malformed(context, error)
            return
        self._count(context, FailureReason.IO_ERROR)
        what = "request given up api=%d version=%d reason=%s"
        log.warning(what, context.api.key, context.version, error)
        context.connection.abort()
        context.finish()

    def _count(self, context: RequestContext, reason: FailureReason) -> None:
        self.counts.failed[context.api.key, reason] += 1
