"""Connections to the brokers of a cluster, and metadata that is kept fresh: the shell around `metadata`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from itertools import count
from typing import Any

from kavka.client import arguments
from kavka.client.config import Config
from kavka.client.connections import (
    NOT_REACHED,
    BootstrapError,
    Channel,
    Connections,
    backoff_ms,
    is_retriable,
)
from kavka.client.metadata import BrokerAddress, LeaderHint, MetadataCache, TopicMetadata
from kavka.client.metrics.network import ClientMeter
from kavka.client.outage_warnings import OutageWarnings
from kavka.client.security import peer_security
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.io import Clock, Network, Random
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity
from kavka.wire.apis import ApiKey
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger(__name__)

_IDLE_CHECK_S = 30.0
_SASL_HINT = (
    "; a listener with SASL ends it so: is security.protocol SASL_SSL (or SASL_PLAINTEXT) there?"
)
_REFUSED_KEYS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
"""The kind of key of a refused search for a coordinator: the response does not repeat it."""


def _described(error: ErrorCode) -> str:
    return f"{error.name}: {error.message}"


class CoordinatorKind(IntEnum):
    """The key type of a coordinator (FindCoordinator)."""

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
        random: Random,
        allow_auto_create: bool = False,
        security: PeerSecurity | None = None,
        meter: ClientMeter | None = None,
    ) -> None:
        """Store the I/O; nothing is done before `start`. The security is that of the settings, unless it is given."""
        self.network = network
        self.clock = clock
        self.outage_warnings = OutageWarnings(clock)
        self.random = random
        self.metadata = MetadataCache(config.integer("metadata.max.age.ms"))
        if security is None:
            security = peer_security(config, clock, random)
        self._has_login = security.sasl is not None
        self._connections = Connections(config, self.metadata, network, random, security, meter)
        if meter is not None:
            meter.metadata_age_s = lambda: self.metadata.age_ms(clock.tick_ms()) / 1000
        self.request_timeout_ms = config.integer("request.timeout.ms")
        self._reconnect_backoff_ms = config.integer("reconnect.backoff.ms")
        self._reconnect_backoff_max_ms = config.integer("reconnect.backoff.max.ms")
        self._retry_backoff_ms = config.integer("retry.backoff.ms")
        self._retry_backoff_max_ms = config.integer("retry.backoff.max.ms")
        self._allow_auto_create = allow_auto_create
        self._topics: dict[str, None] = {}  # topics of interest, in order
        self._wants_all_topics = False
        self._refreshing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._refresh_task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._unchanged = 0  # answers in a row that brought nothing new

    async def start(self, timeout_ms: int = 0) -> None:
        """Fetch the first metadata; close again where that fails.

        While none of `bootstrap.servers` answers, try again for `timeout_ms`; an attempt in progress is finished. Raise
        BootstrapError then, and at once where another attempt cannot help.
        """
        try:
            await self._learn_brokers(timeout_ms)
        except BaseException:
            await self.close()
            raise
        self._refresh_task = asyncio.create_task(self._keep_fresh(), name="kavka-metadata")

    async def close(self) -> None:
        """Close every connection; requests in progress fail with ConnectionError."""
        tasks = [t for t in (self._refresh_task, self._refreshing) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connections.close()

    def when_updated(self, callback: Callable[[], None]) -> None:
        """Call after each update of the metadata, and after each leader that was learnt from a refusal."""
        self._listeners.append(callback)

    def _notify_listeners(self) -> None:
        for callback in self._listeners:
            callback()

    # Topics

    def add_topics(self, topics: Iterable[str]) -> None:
        """Add topics to those whose metadata is fetched, from the next update on."""
        for topic in topics:
            if topic not in self._topics:
                self._topics[topic] = None
                if not self._wants_all_topics or topic not in self.metadata.topics:
                    self.mark_stale()

    async def add_partitions_of_interest(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch the metadata of partitions' topics, at once of those that no update has brought.

        Where no broker answers they stay unknown.
        """
        topics = dict.fromkeys(topic_partition.topic for topic_partition in partitions)
        self.add_topics(topics)
        for _ in range(2):  # an update that is in progress may have left without them
            if all(topic in self.metadata.topics for topic in topics):
                return
            with suppress(*NOT_REACHED):
                await self.refresh()

    def set_topics(self, topics: Iterable[str]) -> None:
        """Fetch the metadata of these topics only."""
        self._wants_all_topics = False
        wanted = dict.fromkeys(topics)
        for topic in self._topics:
            if topic not in wanted:
                self.metadata.forget(topic)
        self._topics = {t: None for t in self._topics if t in wanted}
        self.add_topics(wanted)

    def want_all_topics(self) -> None:
        """Fetch the metadata of every topic, as subscriptions by pattern need it."""
        if not self._wants_all_topics:
            self._wants_all_topics = True
            self.mark_stale()

    def mark_stale(self) -> None:
        """Ask for fresh metadata in the background."""
        self.metadata.mark_stale()
        self._wake.set()

    async def topic(self, name: str, timeout_ms: int) -> TopicMetadata:
        """Return a topic that has partitions; wait while it is being created.

        Raise KafkaError when it is invalid or forbidden, TimeoutError when it does not exist within `timeout_ms`. Any
        other error may end in that time: INVALID_REPLICATION_FACTOR when the brokers that are missing are back.
        """
        known = self.metadata.topics.get(name)
        if known is not None and known.error is ErrorCode.NONE and known.partitions:
            return known
        self.add_topics([arguments.name("topic", name)])
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait_for_topic(name)
        except TimeoutError:
            late = f"Topic {name} not present in metadata after {timeout_ms} ms."
            known = self.metadata.topics.get(name)
            reason = "" if known is None or not known.error else f" {_described(known.error)}"
            raise TimeoutError(f"{late}{reason}") from None

    async def _wait_for_topic(self, name: str) -> TopicMetadata:
        warned: ErrorCode | None = None
        attempt = 0
        while True:
            with suppress(OSError):
                await self.refresh()
            known = self.metadata.topics.get(name)
            if known is not None:
                if known.error is ErrorCode.NONE and known.partitions:
                    return known
                if known.is_refused:
                    raise KafkaError(known.error, f"topic {name}: {known.error.message}")
                if known.error is not warned and not known.error.retriable and known.error:
                    warned = known.error
                    log.warning("topic not usable yet topic=%s reason=%s", name, _described(warned))
            await self.back_off(attempt)
            attempt += 1

    # Metadata

    def raise_authentication_failure(self) -> None:
        """Raise AuthenticationFailed, once, if a broker has refused the credential since the last call."""
        failure = self._connections.authentication_failure
        if failure is not None:
            self._connections.authentication_failure = None
            self.mark_stale()
            raise failure

    async def refresh(self) -> None:
        """Ask for metadata now, or join the update in progress. Raise ConnectionError when no broker answers."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_once())
            self._refreshing.add_done_callback(self._on_refreshed)
        await asyncio.shield(self._refreshing)

    def _on_refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # it is raised to the callers that wait, if there are any

    async def _learn_brokers(self, timeout_ms: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        for attempt in count():
            try:
                await self._refresh_from_any()
            except BootstrapError as error:
                left_s = deadline - loop.time()
                if not error.is_retriable or not timeout_ms:
                    raise
                if left_s <= 0:
                    raise BootstrapError(f"{error}; tried for {timeout_ms} ms") from error
                if attempt == 0:
                    self._warn_of_unreachable_servers(timeout_ms, error)
                wait_ms = backoff_ms(
                    attempt,
                    self._reconnect_backoff_ms,
                    self._reconnect_backoff_max_ms,
                    self.random.random(),
                )
                await asyncio.sleep(min(wait_ms / 1000, left_s))
            else:
                return

    def _warn_of_unreachable_servers(self, timeout_ms: int, error: BootstrapError) -> None:
        servers = enumerate(self._connections.bootstrap_servers, start=1)
        log.warning(
            "Connection to %s could not be established. Node may not be available. "
            "Trying again for %d ms reason=%s",
            ", ".join(f"node -{number} ({server})" for number, server in servers),
            timeout_ms,
            error,
        )

    async def _refresh_from_any(self) -> None:
        """Ask until a broker answers, each of `bootstrap.servers` once at most. Raise BootstrapError."""
        for left in range(len(self._connections.bootstrap_servers) - 1, -1, -1):
            try:
                await self.refresh()
                return
            except AuthenticationFailed:
                raise
            except NOT_REACHED as error:  # it took the connection, and then did not answer
                if isinstance(error, BootstrapError) and left == 0:
                    raise
                if left == 0:
                    hint = "" if self._has_login or not isinstance(error, OSError) else _SASL_HINT
                    raise BootstrapError(
                        f"no bootstrap broker answered: {error}{hint}",
                        is_retriable=is_retriable(error),
                    ) from error
                log.info("bootstrap server passed over reason=%s", error)

    async def _refresh_once(self) -> None:
        asked = None if self._wants_all_topics else list(self._topics)
        request = MetadataRequest(
            topics=None if asked is None else [MetadataRequestTopic(name=t) for t in asked],
            allow_auto_topic_creation=self._allow_auto_create,
        )
        peer = await self.any_peer()
        response: MetadataResponse = await peer.send(request, timeout_ms=self.request_timeout_ms)
        if not response.brokers:  # a broker that has just started
            raise ConnectionError(f"{peer.name} knows of no brokers yet")
        was_due = self.metadata.due_in_ms(self.clock.tick_ms()) <= 0
        has_news = self.metadata.update(response, self.clock.tick_ms(), asked)
        self._unchanged = 0 if has_news or was_due else self._unchanged + 1
        if asked is not None and any(topic not in asked for topic in self._topics):
            self.mark_stale()  # interest has grown meanwhile
        self._notify_listeners()

    def learn_leaders(
        self, leaders: Mapping[TopicPartition, LeaderHint], endpoints: Iterable[Any]
    ) -> None:
        """Use at once what a broker, with its refusal, said of leaders and where they listen (KIP-951)."""
        addresses = {
            BrokerId(e.node_id): BrokerAddress(BrokerId(e.node_id), e.host, e.port, e.rack)
            for e in endpoints
        }
        if self.metadata.learn_leaders(leaders, addresses):
            self._notify_listeners()

    async def _keep_fresh(self) -> None:
        attempt = 0
        while True:
            if self.metadata.is_stale(self.clock.tick_ms()):
                try:
                    await self.refresh()
                except AuthenticationFailed as error:
                    log.error("metadata update failed reason=%s", error)
                    self._wake.clear()
                    await (
                        self._wake.wait()
                    )  # until a call wants something: it is refused, or finds another credential
                    attempt += 1
                except NOT_REACHED as error:
                    self.outage_warnings.warn(log, "metadata update failed", error)
                    attempt += 1
                else:
                    attempt = 0
                # KIP-580: answers that bring nothing new count as failures do.
                await self.back_off(max(attempt, self._unchanged, 1) - 1)
                continue
            self._wake.clear()
            wait_s = self.metadata.due_in_ms(self.clock.tick_ms()) / 1000
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, _IDLE_CHECK_S)):
                    await self._wake.wait()
            self._connections.close_idle()

    async def back_off(self, attempt: int) -> None:
        """Sleep before repeat number `attempt` of a request."""
        wait_ms = backoff_ms(
            attempt, self._retry_backoff_ms, self._retry_backoff_max_ms, self.random.random()
        )
        await asyncio.sleep(wait_ms / 1000)

    def retry_backoff_ms(self, attempt: int) -> float:
        """Return the wait before repeat number `attempt` of a request."""
        return backoff_ms(
            attempt, self._retry_backoff_ms, self._retry_backoff_max_ms, self.random.random()
        )

    # Connections

    @property
    def transaction_version(self) -> int:
        """Return the level of the feature `transaction.version`, as the brokers connected so far announce it."""
        return self._connections.transaction_version

    @property
    def last_failure(self) -> str | None:
        """Return why the last connection could not be made; None when it was made."""
        return self._connections.last_failure

    def connected(self, broker_id: BrokerId, channel: Channel = Channel.MAIN) -> Peer | None:
        """Return an open connection to the broker if there is one."""
        return self._connections.connected(broker_id, channel)

    async def peer(self, broker_id: BrokerId, channel: Channel = Channel.MAIN) -> Peer:
        """Return an open connection to the broker, after the reconnect back-off if it failed lately.

        Raise ConnectionError when the broker is unknown, OSError when it cannot be reached.
        """
        return await self._connections.peer(broker_id, channel)

    async def any_peer(self) -> Peer:
        """Return the connection with the least work, or make one to any broker.

        Raise ConnectionError when neither a known broker nor one of `bootstrap.servers` answers.
        """
        return await self._connections.any_peer()

    async def controller(self) -> Peer:
        """Return a connection to the controller. Raise KafkaError NOT_CONTROLLER while none is known."""
        if self.metadata.controller_id not in self.metadata.brokers or self.metadata.is_stale(
            self.clock.tick_ms()
        ):
            await self.refresh()
        controller_id = self.metadata.controller_id
        if controller_id not in self.metadata.brokers:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        return await self.peer(controller_id)

    async def find_coordinator(
        self, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerId:
        """Return the coordinator of a group or transactional id, asked for once.

        Raise KafkaError (often retriable) or OSError.
        """
        peer = await self.any_peer()
        version = peer.version_of(ApiKey.FIND_COORDINATOR)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        response: FindCoordinatorResponse = await peer.send(
            request, version, timeout_ms=self.request_timeout_ms
        )
        found = response.coordinators[0] if response.coordinators else response
        code = ErrorCode.of(found.error_code)
        if code in _REFUSED_KEYS:
            raise KafkaError(code, f"{_REFUSED_KEYS[code]} {key}: {code.message}")
        if code is not ErrorCode.NONE:
            raise KafkaError(code, found.error_message or None)
        broker_id = BrokerId(found.node_id)
        known = self.metadata.brokers.get(broker_id)
        if known is None or (known.host, known.port) != (found.host, found.port):
            address = BrokerAddress(
                broker_id, found.host, found.port, known.rack if known else None
            )
            self.metadata.brokers[broker_id] = address
        return broker_id


__all__ = ["Channel", "Cluster", "CoordinatorKind"]
