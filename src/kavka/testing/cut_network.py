"""TCP with links that can be cut: bytes sent over a cut link wait, as the packets of a broken network are sent again.

Each process of a local cluster has a network of its own over one `Links`. A connection is known by both its ends, so
a cut holds back what is received from the other side, on either side; new connections wait for the link to heal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kavka.io import BufferedProtocol, ClientTls, Listener, ServerTls
from kavka.net.network import TcpNetwork
from kavka.testing.client_link import ClientLinks

_RETRY_S = 0.005
_CHUNK_BYTES = 64 * 1024


class Links:
    """The cut links between processes. Used by several threads: each change is one step."""

    def __init__(self) -> None:
        """Start with all links up."""
        self.listeners: dict[int, int] = {}
        """The process that listens on a port."""
        self.sources: dict[int, int] = {}
        """The process that connects from a port."""
        self._cut: frozenset[tuple[int, int]] = frozenset()

    def cut(self, sender: int, receiver: int) -> None:
        """Drop everything from one host to the other."""
        self._cut |= {(sender, receiver)}

    def heal(self) -> None:
        """Restore all links."""
        self._cut = frozenset()

    def is_cut(self, sender: int | None, receiver: int) -> bool:
        """Return whether what `sender` sends is held back."""
        return (sender, receiver) in self._cut


class _LinkProtocol(asyncio.BufferedProtocol):
    """A protocol before another one, which holds back the bytes of a cut link."""

    def __init__(self, network: CutNetwork, inner: BufferedProtocol, sender: int | None) -> None:
        self.inner = inner
        self.transport: Any = None
        self._network = network
        self._sender = sender
        self._held = bytearray()
        self._chunk = bytearray(_CHUNK_BYTES)
        self._is_ours = False
        self._is_over: list[Exception | None] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._network.taps[self] = None
        self.inner.connection_made(transport)
        if self._network.is_dead:
            transport.abort()  # `CutNetwork.abort` has been, and did not know it

    def _is_held(self) -> bool:
        if self._sender is None:
            peer = self.transport.get_extra_info("peername")
            self._sender = self._network.links.sources.get(peer[1]) if peer else None
        return bool(self._held) or self._network.links.is_cut(self._sender, self._network.number)

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        self._is_ours = self._is_held()
        return self._chunk if self._is_ours else self.inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ours:
            self._held += memoryview(self._chunk)[:nbytes]
        else:
            self.inner.buffer_updated(nbytes)

    def healed(self) -> None:
        """Hand on what was held back, and then perhaps that it was all."""
        held, self._held = self._held, bytearray()
        at = 0
        while at < len(held):
            buffer = memoryview(self.inner.get_buffer(-1))
            if not buffer:  # the wire has paused reading: the rest stays held, and is tried again
                self._held = held[at:]
                asyncio.get_running_loop().call_later(_RETRY_S, self.healed)
                return
            length = min(len(buffer), len(held) - at)
            buffer[:length] = held[at : at + length]
            self.inner.buffer_updated(length)
            at += length
        for error in self._is_over:
            self.inner.connection_lost(error)
        self._is_over.clear()

    def eof_received(self) -> bool | None:
        return False if self._is_held() else self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.taps.pop(self, None)
        if self._is_held() and not self._network.is_dead:
            self._is_over.append(exc)
            self._network.lost[self] = None
        else:
            self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class ReopenedListener:
    """A listening port that may refuse connections for a while; implements `io.Listener`."""

    def __init__(self, open_port: Callable[[], Coroutine[Any, Any, Listener]], port: int) -> None:
        """`open_port` binds and listens on `port`, each time that connections are accepted again."""
        self._open_port = open_port
        self._port = port
        self._listener: Listener | None = None
        self._is_closed = False

    @property
    def port(self) -> int:
        """Return the port, also while nothing listens there."""
        return self._port

    async def accept(self) -> None:
        """Accept connections again."""
        if self._listener is None and not self._is_closed:
            self._listener = await self._open_port()

    def refuse(self) -> None:
        """Refuse connections; open ones stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def pause_accepting(self) -> None:
        """See `io.Listener`."""
        if self._listener is not None:
            self._listener.pause_accepting()

    def resume_accepting(self) -> None:
        """See `io.Listener`."""
        if self._listener is not None:
            self._listener.resume_accepting()

    def close(self) -> None:
        """See `io.Listener`."""
        self._is_closed = True
        self.refuse()


class CutNetwork:
    """The network of process `number`; implements `io.Network`."""

    def __init__(self, links: Links, number: int, clients: ClientLinks | None = None) -> None:
        """Connect and listen as `number`; connections to the port of `clients` are theirs."""
        self.links = links
        self.number = number
        self.clients = clients
        self.client_listener: ReopenedListener | None = None
        self.is_dead = False
        self.taps: dict[_LinkProtocol, None] = {}
        self.lost: dict[_LinkProtocol, None] = {}
        self._tcp = TcpNetwork()
        self._listeners: list[Listener] = []

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """See `io.Network`."""
        if self.clients is not None and port == self.clients.port:
            listener: Listener = await self._listen_to_clients(self.clients, host, make, tls)
        else:
            listener = await self._tcp.listen(
                host, port, lambda: _LinkProtocol(self, make(), None), tls
            )
        self._listeners.append(listener)
        self.links.listeners[listener.port] = self.number
        return listener

    async def _listen_to_clients(
        self,
        clients: ClientLinks,
        host: str,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None,
    ) -> ReopenedListener:
        async def open_port() -> Listener:
            return await self._tcp.listen(
                host, clients.port, lambda: _LinkProtocol(self, clients.wrap(make()), None), tls
            )

        self.client_listener = listener = ReopenedListener(open_port, clients.port)
        await listener.accept()
        if clients.is_refusing:
            listener.refuse()
        return listener

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """See `io.Network`; over a cut link this lasts until it heals."""
        other = self.links.listeners.get(port)
        while other is not None and (  # noqa: ASYNC110 - another thread heals
            self.links.is_cut(other, self.number) or self.links.is_cut(self.number, other)
        ):
            await asyncio.sleep(_RETRY_S)
        tap = await self._tcp.connect(host, port, lambda: _LinkProtocol(self, make(), other), tls)
        assert isinstance(tap, _LinkProtocol)
        name = tap.transport.get_extra_info("sockname")
        if name:
            self.links.sources[name[1]] = self.number
        return tap.inner

    def healed(self) -> None:
        """Hand on what waits; called on this process's loop."""
        for tap in [*self.taps, *self.lost]:
            tap.healed()
        self.lost.clear()

    def abort(self) -> None:
        """Close everything at once, as the system does when a process dies."""
        self.is_dead = True
        for listener in self._listeners:
            listener.close()
        for tap in list(self.taps):
            tap.transport.abort()
