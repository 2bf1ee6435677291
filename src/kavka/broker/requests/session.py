"""The security session of a connection, and what its principal may do."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kavka.broker.requests.authorized_operations import AclOperation

if TYPE_CHECKING:
    from kavka.net.connection import Connection, ResponseSlot


class Principal(NamedTuple):
    """An authenticated user, `User:alice` in the text of ACLs."""

    type: str
    name: str


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


class SessionRefused(Exception):
    """A connection gets no session, and is closed; the message says why."""


class SaslState(Protocol):
    """The authentication of a connection through a listener with SASL, as the way of a request asks about it."""

    @property
    def takes_raw_tokens(self) -> bool:
        """Return whether the next frame is a token without a header."""
        ...

    def admits_frame(self) -> bool:
        """Count a frame of a client that is not authenticated; return whether it may be read."""
        ...

    def take_raw_token(self, connection: Connection, slot: ResponseSlot, frame: memoryview) -> None:
        """Take a token without a header, and answer it alike."""
        ...

    def is_expired(self, tick_ms: int) -> bool:
        """Return whether the client had to authenticate again before now."""
        ...


class Session:
    """The security session of one connection."""

    __slots__ = ("host", "is_authenticated", "listener_name", "principal", "protocol", "sasl")

    def __init__(
        self,
        listener_name: str,
        protocol: str,
        host: str,
        principal: Principal = ANONYMOUS,
        *,
        is_authenticated: bool = True,
    ) -> None:
        """Begin a session of a client at `host`; `protocol` is that of the listener, PLAINTEXT say."""
        self.listener_name = listener_name
        self.protocol = protocol
        self.host = host
        self.principal = principal
        self.is_authenticated = is_authenticated
        self.sasl: SaslState | None = None
        """None through a listener without SASL."""


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """Resource types as ACLs number them."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


Allows = Callable[[Session, AclOperation, AclResourceType, str], bool]
"""Return whether the session's principal may do this with the resource of this name."""


class ConnectionAuthorizer:
    """The authorizer as handlers use it: for the session of their request's connection."""

    __slots__ = ("_allows", "_session")

    def __init__(self, allows: Allows, session: Session) -> None:
        """Ask `allows` about `session`."""
        self._allows = allows
        self._session = session

    def allows(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Return whether the client may do this with the resource of this name."""
        return self._allows(self._session, operation, resource, name)
