"""The network between nodes: links that are slow, narrow, cut or healed, and listeners.

It is TCP: bytes of a connection arrive in order and unharmed, or not at all. What happens beneath (a lost packet,
a cable pulled for a while) shows as time only, because TCP sends again. Connections are in `connection.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
from collections.abc import Callable

from kavka.io import BufferedProtocol, ClientTls, ServerTls
from kavka.simulation.connection import Endpoint
from kavka.simulation.host import Host
from kavka.simulation.links import KERNEL, Links
from kavka.simulation.process import Process
from kavka.simulation.random_streams import stream
from kavka.simulation.scheduling import SchedulingLoop
from kavka.simulation.trace import Trace

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY = ("", "0.0.0.0", "::")
EPHEMERAL_PORTS = 32_768


class SimNetwork(Links):
    """All links and listeners of a world."""

    def __init__(
        self, seed: int, loop: SchedulingLoop, trace: Trace, find: Callable[[str], Host | None]
    ) -> None:
        """Make a network in good weather; `find` returns the host that has a name or address."""
        super().__init__(seed, loop, trace)
        self.find = find
        self.connections: list[Endpoint] = []
        self._sweep_at = 32
        self._source = stream(seed, "network")
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._next_port = EPHEMERAL_PORTS

    def for_process(self, process: Process, node: Host) -> ProcessNetwork:
        """Return the network as `process` on `node` sees it."""
        return ProcessNetwork(self, process, node)

    def break_connections(self, share: float, source: random.Random) -> int:
        """Reset this share of the open connections on both sides. Return how many."""
        broken = 0
        for endpoint in self.open_connections():
            if source.random() < share:
                endpoint.reset()
                endpoint.peer.reset()
                broken += 1
        return broken

    def open_connections(self) -> list[Endpoint]:
        """Return the connecting side of every connection that is not closed on both sides."""
        self.connections = [
            side for side in self.connections if not (side.closed and side.peer.closed)
        ]
        return self.connections

    def port(self) -> int:
        """Return an unused port."""
        self._next_port += 1
        return self._next_port

    def bind(self, listener: SimListener) -> None:
        """Open a port. Raise OSError when it is taken."""
        key = (listener.node.name, listener.port)
        if key in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listeners[key] = listener

    def unbind(self, listener: SimListener) -> None:
        """Close a port."""
        key = (listener.node.name, listener.port)
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def listener(self, node: Host, port: int) -> SimListener | None:
        """Return the listener on `port`, None if it refuses this time."""
        if self.weather.refuse and self._source.random() < self.weather.refuse:
            return None
        listener = self._listeners.get((node.name, port))
        return None if listener is None or listener.is_paused else listener

    def pair(self, client: Process, client_node: Host, listener: SimListener) -> Endpoint:
        """Make the two ends of a connection. Return the client's."""
        number = self.port()
        near = Endpoint(self, client, client_node, number, number)
        far = Endpoint(self, listener.process, listener.node, listener.port, number)
        near.join(far)
        far.join(near)
        self.connections.append(near)
        if len(self.connections) >= self._sweep_at:
            self._sweep_at = 2 * len(self.open_connections()) + 32
        return near


class SimListener:
    """An `io.Listener`."""

    def __init__(
        self,
        network: SimNetwork,
        process: Process,
        node: Host,
        port: int,
        make: Callable[[], BufferedProtocol],
    ) -> None:
        """Listen on `port` of `node`."""
        self.process = process
        self.node = node
        self.port = port
        self.make = make
        self.is_paused = False
        self._network = network
        process.at_end.append(self.close)

    def pause_accepting(self) -> None:
        """Refuse connections: there is no queue of those that wait."""
        self.is_paused = True

    def resume_accepting(self) -> None:
        """Accept connections again."""
        self.is_paused = False

    def close(self) -> None:
        """Accept no more."""
        self._network.unbind(self)


class ProcessNetwork:
    """The `io.Network` of one process."""

    def __init__(self, network: SimNetwork, process: Process, node: Host) -> None:
        """Open `network` for `process`."""
        self._network = network
        self._process = process
        self._node = node

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> SimListener:
        """Accept connections to this node; a port of 0 takes a free one."""
        self._process.check_alive()
        assert tls is None, "the simulated network does not encrypt"
        if (
            host not in ANY
            and host not in LOOPBACK
            and host not in (self._node.name, self._node.address)
        ):
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is no address of {self._node.name}")
        listener = SimListener(
            self._network, self._process, self._node, port or self._network.port(), make
        )
        self._network.bind(listener)
        return listener

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """Connect, or raise what the operating system would after as long as it would take."""
        self._process.check_alive()
        assert tls is None, "the simulated network does not encrypt"
        target = self._node if host in LOOPBACK else self._network.find(host)
        if target is None:
            raise socket.gaierror(socket.EAI_NONAME, f"no node is called {host}")
        attempt = _Attempt(self._network, self._process, self._node, target, port)
        endpoint = await attempt.run()
        protocol = make()
        endpoint.attach(protocol)
        return protocol


class _Attempt:
    """A three-way handshake."""

    def __init__(
        self, network: SimNetwork, process: Process, near: Host, target: Host, port: int
    ) -> None:
        self._network = network
        self._process = process
        self._near = near
        self._target = target
        self._port = port
        self._handshake: asyncio.Future[Endpoint] = network.loop.create_future()
        self._there = network.link(near.name, target.name)
        self._back = network.link(target.name, near.name)

    async def run(self) -> Endpoint:
        timer = self._network.loop.call_later(
            self._network.weather.connect_timeout_s, self._fail, errno.ETIMEDOUT, context=KERNEL
        )
        self._there.send(40, 0.0, self._send_syn)
        try:
            return await self._handshake
        except asyncio.CancelledError:
            if (
                self._handshake.done()
                and not self._handshake.cancelled()
                and not self._handshake.exception()
            ):
                self._handshake.result().discard()
            raise
        finally:
            timer.cancel()

    def _send_syn(self) -> None:
        if not self._target.is_up:
            return  # no host is there to refuse; the attempt times out
        listener = self._network.listener(self._target, self._port)
        if listener is None:
            self._back.send(40, 0.0, self._fail, errno.ECONNREFUSED)
            return
        endpoint = self._network.pair(self._process, self._near, listener)
        endpoint.peer.connect_protocol(listener.make)
        endpoint.peer.last_arrival_s = self._back.send(40, 0.0, self._open, endpoint)

    def _open(self, endpoint: Endpoint) -> None:
        if self._handshake.done() or not self._process.alive:
            endpoint.discard()
        elif endpoint.closed:
            self._handshake.set_exception(_os_error(errno.ECONNRESET))
        else:
            self._handshake.set_result(endpoint)

    def _fail(self, number: int) -> None:
        if not self._handshake.done():
            self._handshake.set_exception(_os_error(number))


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
