"""The registry server, in ZooKeeper's client protocol: for development clusters of several processes.

    clients --TCP--> ClientConnection --> RequestProcessor --> ZnodeServer --> Journal

One process, no ensemble: acknowledged changes survive a crash, but no client is served while it is down. Sessions
continue when it is back within their timeouts, with their ephemeral nodes.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING

from kavka.core.distinguished_names import subject_of
from kavka.io import Environment, Listener, Lock, Network
from kavka.registry.client_connection import ClientConnection
from kavka.registry.client_identities import ClientAuthentication
from kavka.registry.four_letter_words import reply_to_four_letter_word
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.request_processor import ClientStatistics, RequestProcessor
from kavka.registry.znode_server import SessionState, ZnodeServer
from kavka.wire.zookeeper.jute import encode
from kavka.wire.zookeeper.messages import ConnectRequest, ConnectResponse

if TYPE_CHECKING:
    from kavka.net.tls.server import ListenerTls

log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_NO_SESSION = ConnectResponse(0, 0, 0, bytes(16))
_READ_WRITE = b"\0"  # behind the reply to a modern client: this server is not read-only


class RegistryServer:
    """A znode server behind a port. `start` once, `stop` once; the znode server is closed by its opener."""

    def __init__(
        self, znode_server: ZnodeServer, config: RegistryServerConfig, network: Network
    ) -> None:
        """Accept no connections before `start`."""
        self.znode_server = znode_server
        self.config = config
        self.connections: dict[ClientConnection, None] = {}
        self._network = network
        self._listener: Listener | None = None
        self._secure_listener: Listener | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._chunk = bytearray(_CHUNK_BYTES)
        self._connections_by_session: dict[int, ClientConnection] = {}  # by session
        self._all_closed: asyncio.Event | None = None
        self._authentication = ClientAuthentication(config.access, znode_server.random)
        self.traffic = ClientStatistics()

    async def start(self) -> None:
        """Listen on the ports. Raise OSError when an address is taken, InvalidSetting for a store."""
        config = self.config

        def make() -> ClientConnection:
            return ClientConnection(self, config.frame_bytes, self._chunk)

        if config.port >= 0:
            self._listener = await self._network.listen(config.host, config.port, make)
        if config.tls is not None:
            from kavka.net.tls.server import ListenerTls

            tls = ListenerTls("registry", config.tls)
            self._secure_listener = await self._network.listen(
                config.secure_host, config.secure_port, make, tls
            )
            self._refreshing = asyncio.create_task(self._refresh(tls))

    async def _refresh(self, tls: ListenerTls) -> None:
        """Use the files of the stores as they are now for connections from now on, again and again."""
        while True:
            await asyncio.sleep(self.config.tls_reload_ms / 1000)
            await tls.reloadable.refresh()

    async def stop(self) -> None:
        """Close the ports and every connection; sessions continue in the journal."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        for listener in (self._listener, self._secure_listener):
            if listener is not None:
                listener.close()
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            self._all_closed = asyncio.Event()
            await self._all_closed.wait()

    @property
    def port(self) -> int:
        """The bound port, that with TLS where there is no other."""
        listener = self._listener or self._secure_listener
        assert listener is not None
        return listener.port

    @property
    def secure_port(self) -> int:
        """The bound port with TLS."""
        assert self._secure_listener is not None
        return self._secure_listener.port

    # -- client_connection.Server

    def opened(self, connection: ClientConnection) -> bool:
        """Take a connection unless its address has too many."""
        most = self.config.max_client_connections
        same = sum(one.address == connection.address for one in self.connections)
        if most and same >= most:
            log.warning("too many connections peer=%s max=%d", connection.address, most)
            return False
        self.connections[connection] = None
        return True

    def reply_to_word(self, letters: bytes) -> bytes | None:
        """Answer a four-letter word."""
        return reply_to_four_letter_word(letters, self)

    def admit(
        self, connection: ClientConnection, request: ConnectRequest, *, is_modern: bool
    ) -> RequestProcessor | None:
        """Begin a session, or resume one if the client has its password."""
        if request.last_zxid_seen > self.znode_server.tree.zxid:
            log.warning(
                "registry client refused peer=%s reason=it has seen zxid 0x%x, this server only 0x%x",
                connection.address,
                request.last_zxid_seen,
                self.znode_server.tree.zxid,
            )
            connection.abort()
            return None
        try:
            identities = self._authentication.begin(
                connection.address, _certificate_name(connection)
            )
        except ValueError as error:  # DER that OpenSSL takes, and Python's numbers do not
            log.warning("registry client refused peer=%s reason=%s", connection.address, error)
            connection.abort()
            return None
        config = self.config
        timeout_ms = min(
            max(request.timeout_ms, config.min_session_timeout_ms), config.max_session_timeout_ms
        )
        tail = _READ_WRITE if is_modern else b""
        session = self._session(request, timeout_ms)
        if session is None:
            connection.send(encode(_NO_SESSION) + tail)
            connection.close()
            return None
        self._attach_session(connection, session)
        welcome = (
            encode(ConnectResponse(0, timeout_ms, session.session_id, session.password)) + tail
        )
        self.znode_server.after_sync(
            lambda failure: connection.abort() if failure else connection.send(welcome)
        )
        return RequestProcessor(
            self.znode_server,
            session,
            identities,
            connection.send,
            connection.close,
            self.traffic,
        )

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection."""
        del self.connections[connection]
        if self._all_closed is not None and not self.connections:
            self._all_closed.set()
        processor = connection.processor
        if processor is None:
            return
        session_id = processor.session.session_id
        if self._connections_by_session.get(session_id) is connection:
            del self._connections_by_session[session_id]
            processor.session.on_expired = None

    # -- sessions

    def _session(self, request: ConnectRequest, timeout_ms: int) -> SessionState | None:
        if request.session_id == 0:
            return self.znode_server.create_session(timeout_ms, is_durable=True)
        session = self.znode_server.session(request.session_id)
        if session is None or not hmac.compare_digest(session.password, request.password or b""):
            log.info("registry session unknown session=0x%x", request.session_id)
            return None
        session.timeout_ms = timeout_ms
        return session

    def _attach_session(self, connection: ClientConnection, session_state: SessionState) -> None:
        """Attach a session to this connection, and close the one that had it."""
        before = self._connections_by_session.get(session_state.session_id)
        self._connections_by_session[session_state.session_id] = connection
        if before is not None:
            before.abort()
        session_state.on_expired = connection.close
        self.znode_server.notify(session_state)


def _certificate_name(connection: ClientConnection) -> str | None:
    certificate = connection.peer_certificate
    return None if certificate is None else subject_of(certificate)


class DataDirectory:
    """The locked data directory of a registry server, with its znode server."""

    def __init__(self, znode_server: ZnodeServer, lock: Lock) -> None:
        """Use `open` instead."""
        self.znode_server = znode_server
        self._lock = lock

    @classmethod
    async def open(cls, environment: Environment, path: str) -> DataDirectory:
        """Lock the directory and read its journal.

        Raise BlockingIOError when another process has it, CorruptRegistry, OSError.
        """
        disk = environment.disk
        if disk.exists(f"{path}/version-2"):
            raise FileExistsError(
                f"{path} holds the data of Apache ZooKeeper, which is not read here: use another dataDir"
            )
        disk.make_directories(path)
        lock = disk.lock(f"{path}/.lock")
        try:
            znode_server = await ZnodeServer.open(disk, path, environment.clock, environment.random)
        except BaseException:
            lock.release()
            raise
        return cls(znode_server, lock)

    async def close(self) -> None:
        """Write a snapshot, close the journal and unlock the directory."""
        try:
            await self.znode_server.close()
        finally:
            self._lock.release()
