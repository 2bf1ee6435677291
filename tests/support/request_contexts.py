"""Contexts of requests that a test gives to a handler itself."""

from __future__ import annotations

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import NO_RESPONSE
from kavka.broker.requests.served_apis import ServedApi
from kavka.net.connection import Connection, ResponseSlot
from kavka.wire.apis import ApiKey
from kavka.wire.frame import RequestHeader


def request_context(
    connection: Connection, api: ApiKey, version: int, received_ms: int = 0
) -> RequestContext:
    """Return the context of a request whose response has no place in its connection's order."""
    header = RequestHeader(api, version, 0, "test", 0)
    served = ServedApi(api, lambda *_: NO_RESPONSE, 1 << 20)
    return RequestContext(served, connection, ResponseSlot(), header, received_ms)
