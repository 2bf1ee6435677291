"""A registry on a port, in ZooKeeper's client protocol: what a development cluster of several processes needs.

    clients --TCP--> ClientConnection --> Conversation --> Keeper --> Journal

One process, no ensemble: what it has acknowledged survives a crash, but nobody serves while it is down. Sessions go on
when it is back within their time-outs, with their ephemeral nodes.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Mapping
from functools import partial

from kavka.doors import Host, Listener, Lock, Network
from kavka.registry.client_connection import ClientConnection
from kavka.registry.conversation import Conversation, Traffic
from kavka.registry.four_letter_words import answer_word
from kavka.registry.keeper import Keeper, Seat
from kavka.settings.declaration import InvalidSetting, whole_number
from kavka.settings.registry import REGISTRY_SETTINGS, WITHOUT_EFFECT
from kavka.values import frozen
from kavka.wire.zookeeper.jute import encode
from kavka.wire.zookeeper.messages import ConnectRequest, ConnectResponse

log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_NO_SESSION = ConnectResponse(0, 0, 0, bytes(16))
_READ_WRITE = b"\0"  # behind the answer to a modern client: this server is not read-only


@frozen
class ServedConfig:
    """The settings of a served registry."""

    data_directory: str
    host: str
    port: int
    tick_ms: int
    least_timeout_ms: int
    most_timeout_ms: int
    most_connections: int
    """Of one address; 0 for any number."""
    words: tuple[str, ...]
    frame_bytes: int

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> ServedConfig:
        """Read the names of `zoo.cfg`; warn of unknown ones. Raise InvalidSetting."""
        values = REGISTRY_SETTINGS.parse(texts)
        _check_names(texts)
        whole = partial(whole_number, values)
        tick_ms = whole("tickTime")
        least_ms, most_ms = whole("minSessionTimeout"), whole("maxSessionTimeout")
        least_ms = 2 * tick_ms if least_ms < 0 else least_ms
        most_ms = 20 * tick_ms if most_ms < 0 else most_ms
        if least_ms > most_ms:
            raise InvalidSetting("minSessionTimeout", least_ms, "is above maxSessionTimeout")
        words = values["4lw.commands.whitelist"]
        assert isinstance(words, list)
        return cls(
            str(values["dataDir"]),
            str(values["clientPortAddress"]),
            whole("clientPort"),
            tick_ms,
            least_ms,
            most_ms,
            whole("maxClientCnxns"),
            tuple(words),
            whole("jute.maxbuffer"),
        )


def _check_names(texts: Mapping[str, str]) -> None:
    members = [name for name in texts if name.startswith("server.")]
    if len(members) > 1:
        reason = "an ensemble is not served here: leave one server, or run Apache ZooKeeper"
        raise InvalidSetting(members[0], texts[members[0]], reason)
    for name in sorted(texts):
        if name in WITHOUT_EFFECT or name in members:
            log.info("setting without effect name=%s", name)
        elif name not in REGISTRY_SETTINGS:
            near = REGISTRY_SETTINGS.nearest(name)
            hint = f" did you mean {near}?" if near else ""
            log.warning("unknown setting ignored name=%s%s", name, hint)


class ServedRegistry:
    """A keeper behind a port. `start` once, `stop` once; the keeper is closed by who opened it."""

    def __init__(self, keeper: Keeper, config: ServedConfig, network: Network) -> None:
        """Serve nobody yet."""
        self.keeper = keeper
        self.config = config
        self.connections: dict[ClientConnection, None] = {}
        self._network = network
        self._listener: Listener | None = None
        self._chunk = bytearray(_CHUNK_BYTES)
        self._holders: dict[int, ClientConnection] = {}  # by session
        self._all_closed: asyncio.Event | None = None
        self.traffic = Traffic()

    async def start(self) -> None:
        """Listen. Raise OSError when the address is taken."""
        config = self.config
        self._listener = await self._network.listen(
            config.host,
            config.port,
            lambda: ClientConnection(self, config.frame_bytes, self._chunk),
        )

    async def stop(self) -> None:
        """Close the port and every connection; sessions go on in the journal."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            self._all_closed = asyncio.Event()
            await self._all_closed.wait()

    @property
    def port(self) -> int:
        """The bound port."""
        assert self._listener is not None
        return self._listener.port

    # -- client_connection.Server

    def opened(self, connection: ClientConnection) -> bool:
        """Take a connection unless its address has too many."""
        most = self.config.most_connections
        same = sum(one.address == connection.address for one in self.connections)
        if most and same >= most:
            log.warning("too many connections peer=%s most=%d", connection.address, most)
            return False
        self.connections[connection] = None
        return True

    def word(self, letters: bytes) -> bytes | None:
        """Answer a four-letter word."""
        return answer_word(letters, self)

    def admit(
        self, connection: ClientConnection, request: ConnectRequest, *, is_modern: bool
    ) -> Conversation | None:
        """Begin a session, or go on with one whose password the client knows."""
        if request.last_zxid_seen > self.keeper.tree.zxid:
            log.warning(
                "registry client refused peer=%s reason=it has seen zxid 0x%x, this server only 0x%x",
                connection.address,
                request.last_zxid_seen,
                self.keeper.tree.zxid,
            )
            connection.abort()
            return None
        config = self.config
        timeout_ms = min(max(request.timeout_ms, config.least_timeout_ms), config.most_timeout_ms)
        tail = _READ_WRITE if is_modern else b""
        seat = self._seat(request, timeout_ms)
        if seat is None:
            connection.send(encode(_NO_SESSION) + tail)
            connection.close()
            return None
        self._hold(connection, seat)
        welcome = encode(ConnectResponse(0, timeout_ms, seat.session_id, seat.password)) + tail
        self.keeper.after_sync(
            lambda failure: connection.abort() if failure else connection.send(welcome)
        )
        return Conversation(
            self.keeper,
            seat,
            connection.address,
            connection.send,
            connection.close,
            self.traffic,
        )

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection."""
        del self.connections[connection]
        if self._all_closed is not None and not self.connections:
            self._all_closed.set()
        conversation = connection.conversation
        if conversation is None:
            return
        session_id = conversation.seat.session_id
        if self._holders.get(session_id) is connection:
            del self._holders[session_id]
            conversation.seat.on_expired = None

    # -- sessions

    def _seat(self, request: ConnectRequest, timeout_ms: int) -> Seat | None:
        if request.session_id == 0:
            return self.keeper.begin(timeout_ms, is_durable=True)
        seat = self.keeper.seat(request.session_id)
        if seat is None or not hmac.compare_digest(seat.password, request.password or b""):
            log.info("registry session unknown session=0x%x", request.session_id)
            return None
        seat.timeout_ms = timeout_ms
        return seat

    def _hold(self, connection: ClientConnection, seat: Seat) -> None:
        """Let this connection, and no other, speak for a session."""
        before = self._holders.get(seat.session_id)
        self._holders[seat.session_id] = connection
        if before is not None:
            before.abort()
        seat.on_expired = connection.close
        self.keeper.touch(seat)


class DataDirectory:
    """The keeper of a served registry's directory, which no other process may have."""

    def __init__(self, keeper: Keeper, lock: Lock) -> None:
        """Use `open` instead."""
        self.keeper = keeper
        self._lock = lock

    @classmethod
    async def open(cls, host: Host, path: str) -> DataDirectory:
        """Lock the directory and read its journal.

        Raise BlockingIOError when another process has it, CorruptRegistry, OSError.
        """
        disk = host.disk
        if disk.exists(f"{path}/version-2"):
            raise FileExistsError(
                f"{path} holds the data of Apache ZooKeeper, which is not read here: use another dataDir"
            )
        disk.make_directories(path)
        lock = disk.lock(f"{path}/.lock")
        try:
            keeper = await Keeper.open(disk, path, host.clock, host.chance)
        except BaseException:
            lock.release()
            raise
        return cls(keeper, lock)

    async def close(self) -> None:
        """Fold the journal and give the directory up."""
        try:
            await self.keeper.close()
        finally:
            self._lock.release()
