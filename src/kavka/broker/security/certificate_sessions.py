"""The sessions of connections through listeners with SSL: the owner of the client's certificate is the principal.

Its name is what `ssl.principal.mapping.rules` make of the certificate's distinguished name. A client without a
certificate, where none is required, is `ANONYMOUS`.
"""

from __future__ import annotations

from kavka.broker.context import BrokerContext
from kavka.broker.requests.session import Ended, Principal, Session, SessionRefused
from kavka.core.distinguished_names import subject_of
from kavka.core.ssl_principals import BadMappingRules, SslPrincipalMapper
from kavka.net.connection import Connection
from kavka.settings.declaration import InvalidSetting


class CertificateSessions:
    """Opens the sessions of connections through listeners with SSL."""

    def __init__(self, context: BrokerContext) -> None:
        """Begin without rules: `configure` reads them."""
        self._context = context
        self.observers: list[Ended] = []
        """Called with each client's certificate that was taken for a principal, or refused."""
        self._mappers: dict[str, SslPrincipalMapper] = {}

    def configure(self) -> None:
        """Read the rules of each listener. Raise InvalidSetting."""
        self._mappers = {
            endpoint.name: _mapper(self._context, endpoint.name)
            for endpoint in self._context.endpoints.listeners
            if endpoint.protocol == "SSL"
        }

    def add(self, name: str) -> None:
        """Read the rules of a listener that is about to be opened. Raise InvalidSetting."""
        self._mappers[name] = _mapper(self._context, name)

    def remove(self, name: str) -> None:
        """Forget a listener that is closed."""
        self._mappers.pop(name, None)

    def open(self, connection: Connection) -> Session:
        """Return the session of a connection whose handshake is done. Raise SessionRefused."""
        name = connection.listener_name
        mapper = self._mappers.get(name)
        if mapper is None:
            raise SessionRefused(f"the listener {name} is closed")
        session = Session(name, "SSL", connection.peer_host)
        certificate = connection.peer_certificate
        if certificate is None:
            return session
        try:
            session.principal = Principal("User", mapper.name(subject_of(certificate)))
        except ValueError as error:
            # No rule fits; or DER that OpenSSL takes, and Python's numbers do not.
            self._notify(session, str(error))
            raise SessionRefused(str(error)) from error
        self._notify(session, None)
        return session

    def _notify(self, session: Session, failure: str | None) -> None:
        for observer in self.observers:
            observer(session, "SSL", failure)


def _mapper(context: BrokerContext, listener: str) -> SslPrincipalMapper:
    rules = context.effective_configs.listener(listener).text("ssl.principal.mapping.rules")
    try:
        return SslPrincipalMapper(rules)
    except BadMappingRules as error:
        raise InvalidSetting("ssl.principal.mapping.rules", rules, str(error)) from error
