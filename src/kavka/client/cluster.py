"""Connections to the brokers of a cluster, and metadata that is kept fresh: the shell around `metadata`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import Any

from kavka.client.backoff import backoff_ms
from kavka.client.config import Config
from kavka.client.metadata import BrokerAddress, MetadataCache, TopicMetadata
from kavka.doors import Chance, Clock, Network
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger(__name__)

_IDLE_CHECK_S = 30.0
_CLOSE_S = 1.0


class Channel(IntEnum):
    """Connections to one broker that must not wait for each other: fetches and joins are answered late."""

    MAIN = 0
    FETCH = 1
    GROUP = 2


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """All that a client knows of its cluster. `start` before use, `close` after."""

    def __init__(
        self,
        config: Config,
        *,
        network: Network,
        clock: Clock,
        chance: Chance,
        allow_auto_create: bool = False,
    ) -> None:
        """Take the doors; nothing is done before `start`."""
        self.network = network
        self.clock = clock
        self.chance = chance
        self.metadata = MetadataCache(config.integer("metadata.max.age.ms"))
        self.request_timeout_ms = config.integer("request.timeout.ms")
        self._retry_backoff_ms = config.integer("retry.backoff.ms")
        self._retry_backoff_max_ms = config.integer("retry.backoff.max.ms")
        self._bootstrap = config.addresses()
        self._client_id = config.text("client.id")
        self._connect_timeout_ms = config.integer("socket.connection.setup.timeout.ms")
        self._reconnect_backoff_ms = config.integer("reconnect.backoff.ms")
        self._reconnect_backoff_max_ms = config.integer("reconnect.backoff.max.ms")
        self._max_idle_ms = config.integer("connections.max.idle.ms")
        self._allow_auto_create = allow_auto_create
        self._topics: dict[str, None] = {}  # topics of interest, in order
        self._wants_all_topics = False
        self._peers: dict[tuple[BrokerId, Channel], Peer] = {}
        self._connecting: dict[tuple[BrokerId, Channel], asyncio.Task[Peer]] = {}
        self._failures: dict[
            BrokerId, tuple[int, float]
        ] = {}  # in a row, loop time of the next try
        self._bootstrap_peer: Peer | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Learn the brokers. Raise ConnectionError when none of `bootstrap.servers` answers."""
        await self.refresh()
        self._keeper = asyncio.create_task(self._keep_fresh(), name="kavka-metadata")

    async def close(self) -> None:
        """Close every connection; requests under way fail with ConnectionError."""
        self._is_closed = True
        tasks = [t for t in (self._keeper, self._refreshing, *self._connecting.values()) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
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

    # Topics

    def add_topics(self, topics: Iterable[str]) -> None:
        """Be interested in topics from the next update on."""
        for topic in topics:
            if topic not in self._topics:
                self._topics[topic] = None
                if not self._wants_all_topics or topic not in self.metadata.topics:
                    self.mark_stale()

    def set_topics(self, topics: Iterable[str]) -> None:
        """Be interested in these topics only."""
        self._wants_all_topics = False
        wanted = dict.fromkeys(topics)
        for topic in self._topics:
            if topic not in wanted:
                self.metadata.forget(topic)
        self._topics = {t: None for t in self._topics if t in wanted}
        self.add_topics(wanted)

    def want_all_topics(self) -> None:
        """Be interested in every topic, as subscriptions by pattern are."""
        if not self._wants_all_topics:
            self._wants_all_topics = True
            self.mark_stale()

    def mark_stale(self) -> None:
        """Ask for fresh metadata in the background."""
        self.metadata.mark_stale()
        self._wake.set()

    async def topic(self, name: str, timeout_ms: int) -> TopicMetadata:
        """Return a topic that has partitions; wait while it is being created.

        Raise KafkaError when it is invalid or forbidden, TimeoutError when it does not exist within `timeout_ms`.
        """
        known = self.metadata.topics.get(name)
        if known is not None and known.error is ErrorCode.NONE and known.partitions:
            return known
        self.add_topics([name])
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait_for_topic(name)
        except TimeoutError:
            raise TimeoutError(
                f"Topic {name} not present in metadata after {timeout_ms} ms."
            ) from None

    async def _wait_for_topic(self, name: str) -> TopicMetadata:
        attempt = 0
        while True:
            with suppress(OSError):
                await self.refresh()
            known = self.metadata.topics.get(name)
            if known is not None:
                if known.error is ErrorCode.NONE and known.partitions:
                    return known
                if not known.error.retriable and known.error is not ErrorCode.NONE:
                    raise KafkaError(known.error, f"topic {name}: {known.error.message}")
            await self.back_off(attempt)
            attempt += 1

    # Metadata

    async def refresh(self) -> None:
        """Ask for metadata now, or join the update under way. Raise ConnectionError when no broker answers."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_once())
            self._refreshing.add_done_callback(self._on_refreshed)
        await asyncio.shield(self._refreshing)

    def _on_refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # it is raised to whoever waits; nobody may be waiting

    async def _refresh_once(self) -> None:
        asked = None if self._wants_all_topics else list(self._topics)
        request = MetadataRequest(
            topics=None if asked is None else [MetadataRequestTopic(name=t) for t in asked],
            allow_auto_topic_creation=self._allow_auto_create,
        )
        peer = await self.any_peer()
        response: MetadataResponse = await peer.send(request, timeout_ms=self.request_timeout_ms)
        self.metadata.update(response, self.clock.tick_ms(), asked)
        if asked is not None and any(topic not in asked for topic in self._topics):
            self.mark_stale()  # interest has grown meanwhile

    async def _keep_fresh(self) -> None:
        attempt = 0
        while True:
            if self.metadata.is_stale(self.clock.tick_ms()):
                try:
                    await self.refresh()
                except (OSError, KafkaError, CorruptFrame) as error:
                    log.warning("metadata update failed reason=%s", error)
                    attempt += 1
                else:
                    attempt = 0
                await self.back_off(attempt)
                continue
            self._wake.clear()
            wait_s = self.metadata.due_in_ms(self.clock.tick_ms()) / 1000
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, _IDLE_CHECK_S)):
                    await self._wake.wait()
            self._close_idle()

    async def back_off(self, attempt: int) -> None:
        """Sleep before repeat number `attempt` of a request."""
        wait_ms = backoff_ms(
            attempt, self._retry_backoff_ms, self._retry_backoff_max_ms, self.chance.random()
        )
        await asyncio.sleep(wait_ms / 1000)

    def retry_backoff_ms(self, attempt: int) -> float:
        """Return the wait before repeat number `attempt` of a request."""
        return backoff_ms(
            attempt, self._retry_backoff_ms, self._retry_backoff_max_ms, self.chance.random()
        )

    # Connections

    def connected(self, broker_id: BrokerId, channel: Channel = Channel.MAIN) -> Peer | None:
        """Return an open connection to the broker if there is one."""
        peer = self._peers.get((broker_id, channel))
        return None if peer is None or peer.is_closed else peer

    async def peer(self, broker_id: BrokerId, channel: Channel = Channel.MAIN) -> Peer:
        """Return an open connection to the broker, after the reconnect back-off if it failed lately.

        Raise ConnectionError when the broker is unknown, OSError when it cannot be reached.
        """
        peer = self.connected(broker_id, channel)
        if peer is not None:
            return peer
        key = (broker_id, channel)
        task = self._connecting.get(key)
        if task is None:
            task = asyncio.create_task(self._connect(broker_id, channel))
            self._connecting[key] = task
            task.add_done_callback(lambda done: self._on_connected(key, done))
        return await asyncio.shield(task)

    def _on_connected(self, key: tuple[BrokerId, Channel], task: asyncio.Task[Peer]) -> None:
        self._connecting.pop(key, None)
        if not task.cancelled():
            task.exception()  # raised to whoever waits

    async def _connect(self, broker_id: BrokerId, channel: Channel) -> Peer:
        failures, next_try = self._failures.get(broker_id, (0, 0.0))
        wait_s = next_try - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        address = self.metadata.brokers.get(broker_id)
        if address is None:
            raise ConnectionError(f"broker {broker_id} is not in the metadata")
        try:
            peer = await self._open(address.host, address.port)
        except (OSError, KafkaError, CorruptFrame) as error:
            wait_ms = backoff_ms(
                failures,
                self._reconnect_backoff_ms,
                self._reconnect_backoff_max_ms,
                self.chance.random(),
            )
            again = asyncio.get_running_loop().time() + wait_ms / 1000
            self._failures[broker_id] = (failures + 1, again)
            log.info("connection failed broker=%s reason=%s", address, error)
            raise
        self._failures.pop(broker_id, None)
        self._peers[(broker_id, channel)] = peer
        self._leave_bootstrap()
        return peer

    async def _open(self, host: str, port: int) -> Peer:
        return await Peer.connect(
            self.network,
            host,
            port,
            client_id=self._client_id,
            timeout_ms=self._connect_timeout_ms,
        )

    async def any_peer(self) -> Peer:
        """Return the connection with the least work, or make one to any broker.

        Raise ConnectionError when neither a known broker nor one of `bootstrap.servers` answers.
        """
        opened = [p for (_, c), p in self._peers.items() if c is Channel.MAIN and not p.is_closed]
        if opened:
            return min(opened, key=lambda peer: peer.in_flight)
        if self._bootstrap_peer is not None and not self._bootstrap_peer.is_closed:
            return self._bootstrap_peer
        for broker_id in self._shuffled(list(self.metadata.brokers)):
            try:
                return await self.peer(broker_id)
            except (OSError, KafkaError, CorruptFrame):
                continue  # the next one may answer; the last resort below says why none did
        return await self._bootstrapped()

    async def _bootstrapped(self) -> Peer:
        reason: Exception | None = None
        for host, port in self._shuffled(self._bootstrap):
            try:
                self._bootstrap_peer = await self._open(host, port)
            except (OSError, KafkaError, CorruptFrame) as error:
                reason = error
            else:
                return self._bootstrap_peer
        servers = ", ".join(f"{host}:{port}" for host, port in self._bootstrap)
        raise ConnectionError(f"cannot reach any of bootstrap.servers [{servers}]: {reason}")

    def _shuffled(self, items: list[Any]) -> list[Any]:
        keyed = [(self.chance.random(), i) for i in range(len(items))]
        return [items[i] for _, i in sorted(keyed)]

    async def controller(self) -> Peer:
        """Return a connection to the controller. Raise KafkaError NOT_CONTROLLER while none is known."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh()
        controller_id = self.metadata.controller_id
        if controller_id not in self.metadata.brokers:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        return await self.peer(controller_id)

    async def find_coordinator(
        self, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerId:
        """Return the coordinator's id, once. Raise KafkaError (often retriable) or OSError."""
        peer = await self.any_peer()
        version = peer.version_of(ApiKey.FIND_COORDINATOR)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        answer: FindCoordinatorResponse = await peer.send(
            request, version, timeout_ms=self.request_timeout_ms
        )
        found = answer.coordinators[0] if answer.coordinators else answer
        code = ErrorCode.of(found.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, found.error_message or None)
        broker_id = BrokerId(found.node_id)
        if broker_id not in self.metadata.brokers:
            address = BrokerAddress(broker_id, found.host, found.port)
            self.metadata.brokers[broker_id] = address
        return broker_id

    def _leave_bootstrap(self) -> None:
        """Close the first connection once `any_peer` has another one and nothing waits for its answers."""
        peer = self._bootstrap_peer
        if peer is None or peer.in_flight:
            return
        if peer.is_closed or any(
            c is Channel.MAIN and not p.is_closed for (_, c), p in self._peers.items()
        ):
            peer.close()
            self._bootstrap_peer = None

    def _close_idle(self) -> None:
        self._leave_bootstrap()
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
