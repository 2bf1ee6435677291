"""TLS of connections to brokers: `io.ClientTls` over a context that is reloaded from its files."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from kavka.io import BufferedProtocol, ClientTls, Listener, Network, ServerTls
from kavka.net.peer_security import TlsHandshakeFailed
from kavka.net.tls.contexts import ReloadableContext, client_context
from kavka.net.tls.failures import ClosedInHandshake, OtherEnd, client_failure
from kavka.net.tls.settings import TlsSettings


class ReloadableClientTls:
    """The TLS of the connections of one client, or of one broker to the others."""

    def __init__(self, settings: TlsSettings, name: str) -> None:
        """Read the stores. Raise InvalidSetting; `name` is for log lines."""
        self._reloadable = ReloadableContext(settings, client_context, name)

    @property
    def wanted(self) -> TlsSettings:
        """The settings in use, or those for which files are being read."""
        return self._reloadable.wanted

    async def context(self) -> ssl.SSLContext:
        """Return the context of the next connection, made of the files as they are now if those can be used."""
        await self._reloadable.refresh()
        return self._reloadable.current

    def server_hostname(self, host: str) -> str:
        """Return the host's name or address: its certificate must be valid for it, unless settings say otherwise."""
        return host

    async def configure(self, settings: TlsSettings) -> None:
        """Use other settings for connections from now on, unless they cannot be used."""
        await self._reloadable.configure(settings)


class TlsNetwork:
    """Implements `io.Network` over another network; all that connects through it does so with TLS."""

    def __init__(self, network: Network, tls: ClientTls, end: OtherEnd) -> None:
        """Connect through `network`; errors name what is connected to by `end`."""
        self._network = network
        self._tls = tls
        self._end = end

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """See `io.Network`."""
        return await self._network.listen(host, port, make, tls)

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """See `io.Network`; by default with this object's TLS."""
        try:
            return await self._network.connect(host, port, make, tls or self._tls)
        except TlsHandshakeFailed as error:
            cause = error.__cause__
            if not isinstance(cause, ssl.SSLError):
                raise
            raise client_failure(cause, f"{host}:{port}", self._end) from cause
        except ClosedInHandshake as error:
            raise ClosedInHandshake(f"{host}:{port}", self._end) from error
