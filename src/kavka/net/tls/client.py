"""TLS of connections to brokers: `io.ClientTls` over a context that follows its files."""

from __future__ import annotations

import ssl

from kavka.net.tls.contexts import FollowedContext, client_context
from kavka.net.tls.settings import TlsSettings


class FollowingClientTls:
    """The TLS of the connections of one client, or of one broker to the others."""

    def __init__(self, settings: TlsSettings, name: str) -> None:
        """Read the stores. Raise InvalidSetting; `name` is for log lines."""
        self._followed = FollowedContext(settings, client_context, name)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection, made of the files as they are now if those can be used."""
        self._followed.refresh()
        return self._followed.current

    def server_hostname(self, host: str) -> str:
        """Return the host's name or address: its certificate must be valid for it, unless settings say otherwise."""
        return host

    def configure(self, settings: TlsSettings) -> None:
        """Use other settings for connections from now on, unless they cannot be used."""
        self._followed.configure(settings)
