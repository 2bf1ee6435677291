"""The stages before and after the handler that security and quotas decide: seams with the trivial policy.

    stage          asks                        trivial policy                      a policy may
    authenticate   `Session.is_authenticated`  each connection is `ANONYMOUS`      open sessions that are not
                                                                                   authenticated yet
    authorise      `Policies.refusal_of`       no request is refused               return the response that refuses it
    handle         `RequestContext.allows`     everything is allowed               filter topics, groups … one by one
    quota          `Policies.quota`            None: no request is throttled       return a throttle time before the
                                                                                   handler, and again for the response

An unauthenticated client may use ApiVersions and the SASL APIs; any other request closes its connection. A response
that refuses a request is sent as if its handler had returned it. A throttle time is written into the response and
mutes the connection after it (KIP-219), with any API.

`None` stands for the trivial policy where a call for each request would cost something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kavka.broker.requests.session import (
    AclOperation,
    AclResourceType,
    Allows,
    AllowsAny,
    Session,
)
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.broker.requests.context import RequestContext
    from kavka.broker.requests.loop_time import LoopTime
    from kavka.broker.requests.served_apis import Handler
    from kavka.errors import ErrorCode
    from kavka.net.connection import Connection
    from kavka.wire.apis import ApiKey


class Quota(Protocol):
    """The quotas of all clients."""

    def loop_time(self, context: RequestContext) -> LoopTime | None:
        """Return the stopwatch of a request whose time is charged, before it is decoded; None for any other."""
        ...

    def request_throttle_ms(self, context: RequestContext, request: Any) -> int:
        """Charge a request before it is handled; return for how long it throttles its client."""
        ...

    def response_throttle_ms(self, context: RequestContext, response: Any) -> int:
        """Charge the time and the response of a request that is handled; return the same."""
        ...


Refusal = Callable[["RequestContext", Any], Any]
"""Return the response that refuses a request as a whole; None lets it through."""


def plaintext_session(connection: Connection) -> Session:
    """Return the session of a connection through a PLAINTEXT listener."""
    return Session(connection.listener_name, "PLAINTEXT", connection.peer_host)


@frozen
class Policies:
    """The decisions of security and quotas that the way of a request asks for."""

    open_session: Callable[[Connection], Session] = plaintext_session
    refusal_of: Callable[[ApiKey], Refusal | None] | None = None
    """Return what refuses requests of an API; None where none of them is refused as a whole."""
    allows: Allows | None = None
    allows_any: AllowsAny | None = None
    """Asked where any resource of a type is enough; None allows nothing by it. With `allows` only."""
    denied: Callable[[RequestContext, AclOperation, AclResourceType, str], None] | None = None
    """Called with what a client asked for and `allows` does not allow."""
    audited: Callable[[ApiKey, Handler], Handler] | None = None
    """Return the handler of an API that takes note of what is done, where the API is to be audited."""
    quota: Quota | None = None


def refuse_whole(context: RequestContext, code: ErrorCode) -> Any:
    """Return the response of an API with one error code for the whole request."""
    return context.api.response(error_code=code)
