"""Connections to brokers: at most one for each broker and channel, made when needed, with back-off and throttling."""

from __future__ import annotations

import asyncio
import logging
import socket
from enum import IntEnum
from typing import Any

from kavka.client.config import Config
from kavka.client.metadata import MetadataCache
from kavka.client.metrics.network import ClientMeter
from kavka.errors import AuthenticationFailed, KafkaError
from kavka.ids import BrokerId
from kavka.io import Network, Random
from kavka.net.frames import InvalidFrameSize
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity, TlsHandshakeFailed
from kavka.wire.codec import CorruptFrame

log = logging.getLogger(__name__)

_CLOSE_S = 1.0
_JITTER = 0.2
NOT_REACHED = (OSError, KafkaError, CorruptFrame)
"""Exceptions of a failed connection: the broker is unreachable, not a Kafka broker, or too old."""


def backoff_ms(attempt: int, first_ms: int, longest_ms: int, random: float) -> float:
    """Return the wait before try `attempt` (0 is the first repeat): doubling up to a bound, give or take 20% (KIP-580).

    `random` lies in 0 up to and without 1.
    """
    bare = min(first_ms * 2.0 ** min(attempt, 30), max(first_ms, longest_ms))
    return bare * (1 - _JITTER + 2 * _JITTER * random)


class BootstrapError(ConnectionError):
    """None of `bootstrap.servers` answers as a broker does. `is_retriable` unless that cannot change in a while."""

    def __init__(self, reason: str, *, is_retriable: bool = True) -> None:
        """Take the whole sentence."""
        super().__init__(reason)
        self.is_retriable = is_retriable


class BootstrapTlsFailed(BootstrapError, TlsHandshakeFailed):
    """The same, because of TLS: the message says which certificate is refused, or what is missing."""


def is_retriable(error: Exception) -> bool:
    """Return whether an address that failed may be a broker in a while.

    It may not where the name does not exist, where what answers is no Kafka broker that the client can talk to, or
    where a certificate is refused.
    """
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_NONAME
    return not isinstance(error, KafkaError | CorruptFrame | InvalidFrameSize | TlsHandshakeFailed)


class Channel(IntEnum):
    """Connections to one broker that must not wait for each other: fetches and joins are answered late."""

    MAIN = 0
    FETCH = 1
    GROUP = 2


class Connections:
    """All connections of one client. Addresses come from the metadata, the first one from `bootstrap.servers`."""

    def __init__(
        self,
        config: Config,
        metadata: MetadataCache,
        network: Network,
        random: Random,
        security: PeerSecurity,
        meter: ClientMeter | None = None,
    ) -> None:
        """Open no connection before it is requested; the meter counts them."""
        self._meter = meter
        if meter is not None:
            meter.connection_count = self._count
        self._metadata = metadata
        self._network = network
        self._random = random
        self._bootstrap = config.addresses()
        self._next_bootstrap = int(random.random() * len(self._bootstrap))
        self._client_id = config.text("client.id")
        self._security = security
        self._connect_timeout_ms = config.integer("socket.connection.setup.timeout.ms")
        self._backoff_ms = config.integer("reconnect.backoff.ms")
        self._backoff_max_ms = config.integer("reconnect.backoff.max.ms")
        self._max_idle_ms = config.integer("connections.max.idle.ms")
        self._peers: dict[tuple[BrokerId, Channel], Peer] = {}
        self._connecting: dict[tuple[BrokerId, Channel], asyncio.Task[Peer]] = {}
        self._failures: dict[BrokerId, tuple[int, float]] = {}  # in a row, loop time of next try
        self._bootstrap_peer: Peer | None = None
        self._features_epoch = -1
        self._is_closed = False
        self.last_failure: str | None = None
        """Reason why the last connection could not be made, None when it was made."""
        self.authentication_failure: AuthenticationFailed | None = None
        """The newest refusal of the credential: None once it is raised, or a connection is authenticated."""
        self.transaction_version = 0
        """The cluster's level of `transaction.version`, as far as brokers have announced it."""

    async def close(self) -> None:
        """Close every connection; requests in progress fail with ConnectionError, and so do later ones."""
        self._is_closed = True
        for task in self._connecting.values():
            task.cancel()
        await asyncio.gather(*self._connecting.values(), return_exceptions=True)
        peers = [*self._peers.values()]
        if self._bootstrap_peer is not None:
            peers.append(self._bootstrap_peer)
        for peer in peers:
            peer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(peer.wait_closed() for peer in peers))
        except TimeoutError:  # a broker that reads no more: what is queued for it is lost anyway
            for peer in peers:
                peer.abort()
        self._peers.clear()

    def _count(self) -> int:
        peers = [*self._peers.values()]
        if self._bootstrap_peer is not None:
            peers.append(self._bootstrap_peer)
        return sum(not peer.is_closed for peer in peers)

    def connected(self, broker_id: BrokerId, channel: Channel) -> Peer | None:
        """Return an open connection to the broker if there is one."""
        peer = self._peers.get((broker_id, channel))
        return None if peer is None or peer.is_closed else peer

    async def peer(self, broker_id: BrokerId, channel: Channel) -> Peer:
        """Return an open connection that may be used: after the back-off if it failed lately, or was throttled.

        Raise ConnectionError when the broker is unknown, OSError when it cannot be reached.
        """
        peer = self.connected(broker_id, channel)
        if peer is None:
            key = (broker_id, channel)
            task = self._connecting.get(key)
            if task is None:
                task = asyncio.create_task(self._connect(broker_id, channel))
                self._connecting[key] = task
                task.add_done_callback(lambda done: self._on_connected(key, done))
            peer = await asyncio.shield(task)
        if peer.throttled_s > 0:
            await asyncio.sleep(peer.throttled_s)
        return peer

    def _on_connected(self, key: tuple[BrokerId, Channel], task: asyncio.Task[Peer]) -> None:
        self._connecting.pop(key, None)
        if not task.cancelled():
            task.exception()  # raised to the callers that wait

    async def _connect(self, broker_id: BrokerId, channel: Channel) -> Peer:
        wait_s = self._wait_s(broker_id)
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        address = self._metadata.brokers.get(broker_id)
        if address is None:
            raise ConnectionError(f"broker {broker_id} is not in the metadata")
        try:
            peer = await self._open(address.host, address.port)
        except NOT_REACHED as error:
            failures = self._failures.get(broker_id, (0, 0.0))[0]
            wait_ms = backoff_ms(
                failures, self._backoff_ms, self._backoff_max_ms, self._random.random()
            )
            again = asyncio.get_running_loop().time() + wait_ms / 1000
            self._failures[broker_id] = (failures + 1, again)
            log.info("connection failed broker=%s reason=%s", address, error)
            raise
        self._failures.pop(broker_id, None)
        self._peers[(broker_id, channel)] = peer
        self._close_bootstrap()
        return peer

    def _wait_s(self, broker_id: BrokerId) -> float:
        """Return how long the back-off of a broker that failed lasts."""
        again = self._failures.get(broker_id, (0, 0.0))[1]
        return max(again - asyncio.get_running_loop().time(), 0.0)

    async def _open(self, host: str, port: int) -> Peer:
        self._require_open()
        try:
            peer = await Peer.connect(
                self._network,
                host,
                port,
                client_id=self._client_id,
                timeout_ms=self._connect_timeout_ms,
                security=self._security,
                traffic=self._meter,
            )
        except NOT_REACHED as error:
            self.last_failure = f"cannot connect to {host}:{port}: {error}"
            if isinstance(error, AuthenticationFailed):
                self.authentication_failure = error
            raise
        self.authentication_failure = None
        if self._meter is not None:
            self._meter.connected()
        if self._is_closed:
            peer.close()
            raise ConnectionError("the client was closed")
        self.last_failure = None
        if peer.features.finalized_features_epoch >= self._features_epoch:
            self._features_epoch = peer.features.finalized_features_epoch
            self.transaction_version = peer.transaction_version
        return peer

    def _require_open(self) -> None:
        if self._is_closed:
            raise ConnectionError("the client is closed")

    async def any_peer(self) -> Peer:
        """Return the connection with the least work, or make one to any broker, those first that did not fail lately.

        Raise ConnectionError when neither a known broker nor one of `bootstrap.servers` answers, and
        AuthenticationFailed when one refuses the credential.
        """
        opened = [p for (_, c), p in self._peers.items() if c is Channel.MAIN and not p.is_closed]
        if not opened and self._bootstrap_peer is not None and not self._bootstrap_peer.is_closed:
            opened = [self._bootstrap_peer]
        if opened:
            peer = min(opened, key=lambda peer: (peer.throttled_s, peer.in_flight))
            if peer.throttled_s > 0:
                await asyncio.sleep(peer.throttled_s)
            return peer
        for broker_id in sorted(self._shuffled(list(self._metadata.brokers)), key=self._wait_s):
            try:
                return await self.peer(broker_id, Channel.MAIN)
            except AuthenticationFailed:
                raise
            except NOT_REACHED:
                continue  # the next may answer; the last resort says why none did
        return await self._bootstrapped()

    async def _bootstrapped(self) -> Peer:
        """Try `bootstrap.servers` in turns, so that one that accepts and answers nothing is not asked again at once."""
        reasons: list[Exception] = []
        for _ in self._bootstrap:
            host, port = self._bootstrap[self._next_bootstrap]
            self._next_bootstrap = (self._next_bootstrap + 1) % len(self._bootstrap)
            try:
                opened = await self._open(host, port)
            except AuthenticationFailed:
                raise  # the others know no other credential
            except NOT_REACHED as error:
                reasons.append(error)
            else:
                return self._keep_one(opened)
        servers = ", ".join(self.bootstrap_servers)
        kind = BootstrapTlsFailed if isinstance(reasons[-1], TlsHandshakeFailed) else BootstrapError
        raise kind(
            f"cannot reach any of bootstrap.servers [{servers}]: {reasons[-1]}",
            is_retriable=any(map(is_retriable, reasons)),
        )

    def _keep_one(self, opened: Peer) -> Peer:
        """Keep one first connection: another caller may have been quicker."""
        first = self._bootstrap_peer
        if first is not None and not first.is_closed:
            opened.close()
            return first
        self._bootstrap_peer = opened
        return opened

    @property
    def bootstrap_servers(self) -> list[str]:
        """Return `bootstrap.servers`, each as host:port."""
        return [f"{host}:{port}" for host, port in self._bootstrap]

    def _shuffled(self, items: list[Any]) -> list[Any]:
        keyed = [(self._random.random(), i) for i in range(len(items))]
        return [items[i] for _, i in sorted(keyed)]

    def _close_bootstrap(self) -> None:
        """Close the first connection once `any_peer` has another one and nothing waits for its responses."""
        peer = self._bootstrap_peer
        if peer is None or peer.in_flight:
            return
        if peer.is_closed or any(
            c is Channel.MAIN and not p.is_closed for (_, c), p in self._peers.items()
        ):
            peer.close()
            self._bootstrap_peer = None

    def close_idle(self) -> None:
        """Close what was not used for `connections.max.idle.ms`."""
        self._close_bootstrap()
        if self._max_idle_ms < 0:
            return
        now = asyncio.get_running_loop().time()
        for key, peer in list(self._peers.items()):
            idle_s = now - peer.last_used
            if peer.is_closed:
                del self._peers[key]
            elif peer.in_flight == 0 and idle_s * 1000 > self._max_idle_ms:
                peer.close()
                del self._peers[key]
