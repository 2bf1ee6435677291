"""The session that a connection begins with, by the security protocol of its listener.

PLAINTEXT    ANONYMOUS
SSL          the owner of the client's certificate, by `ssl.principal.mapping.rules`; ANONYMOUS without one
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.context import BrokerContext
from kavka.broker.requests.session import ANONYMOUS, Principal, Session, SessionRefused
from kavka.core.distinguished_names import BadCertificate, subject_of
from kavka.core.ssl_principals import BadMappingRules, NoMatchingRule, SslPrincipalMapper
from kavka.net.connection import Connection
from kavka.settings.declaration import InvalidSetting

OpenSession = Callable[[Connection], Session]


class Sessions:
    """Opens the sessions of all connections."""

    def __init__(self, context: BrokerContext) -> None:
        """Read what the listeners need. Raise InvalidSetting."""
        self._openers = {
            endpoint.name: _opener(context, endpoint) for endpoint in context.config.listeners
        }

    def open(self, connection: Connection) -> Session:
        """Return the session of a new connection. Raise SessionRefused."""
        return self._openers[connection.listener_name](connection)


def _opener(context: BrokerContext, endpoint: Endpoint) -> OpenSession:
    if endpoint.protocol == "SSL":
        return TlsSessions(endpoint.name, principal_mapper(context, endpoint.name)).open

    def open_plain(connection: Connection) -> Session:
        return Session(endpoint.name, endpoint.protocol, connection.peer_host)

    return open_plain


def principal_mapper(context: BrokerContext, listener: str) -> SslPrincipalMapper:
    """Return the mapping rules of a listener. Raise InvalidSetting."""
    rules = str(context.configs.listener(listener)["ssl.principal.mapping.rules"])
    try:
        return SslPrincipalMapper(rules)
    except BadMappingRules as error:
        raise InvalidSetting("ssl.principal.mapping.rules", rules, str(error)) from error


class TlsSessions:
    """Opens sessions of the owners of client certificates."""

    def __init__(self, listener: str, mapper: SslPrincipalMapper) -> None:
        """Name the owners by the rules of `mapper`."""
        self._listener = listener
        self._mapper = mapper

    def open(self, connection: Connection) -> Session:
        """Return the session of a connection whose handshake is done. Raise SessionRefused."""
        certificate = connection.peer_certificate
        principal = ANONYMOUS
        if certificate is not None:
            try:
                principal = Principal("User", self._mapper.name(subject_of(certificate)))
            except (BadCertificate, NoMatchingRule) as error:
                raise SessionRefused(str(error)) from error
        return Session(self._listener, "SSL", connection.peer_host, principal)
