"""The security session of a connection, and what its principal may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.core.access.entries import ANONYMOUS, Principal
from kavka.core.access.names import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from kavka.core.access.rules import Question
    from kavka.net.connection import Connection, ResponseSlot

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "NO_DECISIONS",
    "AclOperation",
    "AclResourceType",
    "Allows",
    "AllowsAny",
    "ConnectionAuthorizer",
    "Ended",
    "Principal",
    "Session",
]


NO_DECISIONS: Final[Mapping[Question, bool]] = {}
"""The decisions of a session for whose principal none is remembered."""


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

    __slots__ = (
        "_principal",
        "decisions",
        "host",
        "is_authenticated",
        "listener_name",
        "protocol",
        "quota_client",
        "sasl",
        "software",
        "token_id",
        "was_authenticated",
    )

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
        self._principal = principal
        self.is_authenticated = is_authenticated
        self.sasl: SaslState | None = None
        """None through a listener without SASL."""
        self.software: tuple[str, str] | None = None
        """Name and version of the client's software, as it says itself (KIP-511)."""
        self.was_authenticated = False
        """True from the first authentication on, also while the client authenticates again."""
        self.token_id: str | None = None
        """The delegation token by which the principal is authenticated; None where it is not by one."""
        self.decisions: Mapping[Question, bool] = NO_DECISIONS
        """The authorizer's memory of what it decided for the principal; it is emptied when an ACL changes."""
        self.quota_client: Any = None
        """The quotas' memory of the session, for the client that it had then."""

    @property
    def principal(self) -> Principal:
        """The client, as far as it is known by now."""
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._principal = principal
        self.decisions = NO_DECISIONS


Ended = Callable[[Session, str, str | None], None]
"""Takes note of an authentication: its session, its mechanism (`SSL` or one of SASL), and the reason of a failure."""
Allows = Callable[[Session, AclOperation, AclResourceType, str], bool]
"""Return whether the session's principal may do this with the resource of this name."""
AllowsAny = Callable[[Session, AclOperation, AclResourceType], bool]
"""Return whether the session's principal may do this with any resource of the type (KIP-679)."""


class ConnectionAuthorizer:
    """The authorizer as handlers use it, by their `RequestContext`: for the session of their request's connection."""

    __slots__ = ("_allows_any", "allows", "denied", "session")

    def __init__(
        self,
        allows: Allows,
        session: Session,
        allows_any: AllowsAny | None = None,
        denied: Callable[..., None] | None = None,
    ) -> None:
        """Ask `allows` about `session`; `denied` takes note of what a client asked for and may not do."""
        self.allows: Callable[[AclOperation, AclResourceType, str], bool] = partial(allows, session)
        """Return whether the client may do this with the resource of this name."""
        self._allows_any = allows_any
        self.session = session
        """Its `decisions` are looked at first, without a call: this is done for each small request."""
        self.denied = denied

    def allows_any(self, operation: AclOperation, resource: AclResourceType) -> bool:
        """Return whether the client may do this with any resource of the type."""
        return self._allows_any is not None and self._allows_any(self.session, operation, resource)
