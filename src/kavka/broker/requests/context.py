"""The context of a request besides its message, from its frame to its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.requests.pace import UNPACED, Pace
from kavka.net.connection import Connection, ResponseSlot
from kavka.wire.frame import RequestHeader

if TYPE_CHECKING:
    from kavka.broker.requests.large_requests import LargeRequest
    from kavka.broker.requests.loop_time import LoopTime
    from kavka.broker.requests.served_apis import ServedApi
    from kavka.broker.requests.session import (
        AclOperation,
        AclResourceType,
        ConnectionAuthorizer,
        Session,
    )


class RequestContext:
    """A request's API, header, connection and times."""

    __slots__ = (
        "api",
        "authorizer",
        "connection",
        "header",
        "large",
        "local_ms",
        "loop_time",
        "pace",
        "received_ms",
        "slot",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        api: ServedApi,
        connection: Connection,
        slot: ResponseSlot,
        header: RequestHeader,
        received_ms: int,
    ) -> None:
        """`received_ms` is of the monotonic clock."""
        self.api = api
        self.connection = connection
        self.slot = slot
        self.header = header
        self.version = header.api_version
        """The version of the API that the client speaks."""
        self.authorizer: ConnectionAuthorizer | None = connection.attachment.authorizer
        """Authorizer of what the client may do with each resource; None when everything is allowed."""
        self.received_ms = received_ms
        self.local_ms = -1
        """Milliseconds of the first stage; -1 until there is a second."""
        self.large: LargeRequest | None = None
        """The state of a request that is large."""
        self.pace: Pace = UNPACED
        """Small requests are served in one iteration; a handler may set another pace where it finds much to do."""
        self.throttle_ms = 0
        """Milliseconds for which quotas throttle the client."""
        self.loop_time: LoopTime | None = None
        """The stopwatch of a request whose time is charged."""

    # -- for handlers

    @property
    def is_paced(self) -> bool:
        """Return whether the request is served in slices of the loop's time."""
        return self.pace is not UNPACED

    @property
    def client_id(self) -> str:
        """The client's name for itself; empty when it gave none."""
        return self.header.client_id or ""

    @property
    def listener_name(self) -> str:
        """The listener through which the client came."""
        return self.connection.listener_name

    @property
    def session(self) -> Session:
        """The security session of the connection."""
        session: Session = self.connection.attachment.session
        return session

    def allows(
        self,
        operation: AclOperation,
        resource: AclResourceType,
        name: str,
        *,
        is_asked: bool = True,
    ) -> bool:
        """Return whether the client may do this with the resource of this name.

        `is_asked` is false where the client did not ask for it by name, so that a refusal is no attempt at access.
        """
        authorizer = self.authorizer
        if (
            authorizer is None
            or authorizer.session.decisions.get((operation, resource, name))
            or authorizer.allows(operation, resource, name)
        ):
            return True
        if is_asked and authorizer.denied is not None:
            authorizer.denied(self, operation, resource, name)
        return False

    def may_act_in_cluster(self) -> bool:
        """Return whether the client may do what brokers do."""
        if self.authorizer is None:
            return True
        from kavka.core.access.names import CLUSTER_NAME, AclOperation, AclResourceType

        return self.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, operation: AclOperation, resource: AclResourceType) -> bool:
        """Return whether the client may do this with any resource of the type."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows_any(operation, resource)

    def count_error(self, code: int, count: int = 1) -> None:
        """Count an error in a response that the handler encodes itself."""
        self.api.traffic.count_error(code, count)

    def begin_wait(self) -> None:
        """Stop counting frame and memory of a large request: its handler waits as long as the client wishes.

        To be called when the handler has dropped what it does not need for the response.
        """
        if self.large is not None:
            self.large.give_memory()
            self.connection.release(self.slot)

    # -- for the way of the request

    @property
    def began_ms(self) -> int:
        """Return the start of the work on it, under the name that `net.event_loop` uses."""
        return self.received_ms

    def end_stage(self) -> None:
        """Stop the time, and have it include the sending of a response that is ready."""
        if self.loop_time is not None:
            if not self.loop_time.in_event:
                self.connection.send_ready()
            self.loop_time.pause()

    def forget_loop_time(self) -> None:
        """Charge no time for the request."""
        if self.loop_time is not None:
            self.loop_time.discard()
            self.loop_time = None

    def block_connection(self) -> None:
        """Block the connection's further requests until this large one is done."""
        assert self.large is not None
        if not self.large.blocks_connection:
            self.large.blocks_connection = True
            self.connection.block()

    def unblock_connection(self) -> None:
        """Serve what came behind this request, if it is a large one."""
        if self.large is not None and self.large.blocks_connection:
            self.large.blocks_connection = False
            self.connection.unblock()

    def finish(self) -> None:
        """Release what a large request has taken: it was answered or cancelled."""
        if self.large is not None:
            self.large.give_memory()
            self.unblock_connection()


class Responding(NamedTuple):
    """The last step of a second stage: the response is encoded and sent."""

    context: RequestContext
    began_ms: int
