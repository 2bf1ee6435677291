"""One broker: its parts, its start and its stop.

    start   directories locked -> registry opened -> logs loaded -> listeners bound -> controller elected -> duties
    stop    listeners closed -> groups unloaded -> answers sent -> logs flushed and closed -> marker -> registry closed

A broker that stops cleanly leaves Kafka's marker, so that its next start recovers nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kavka.broker.config import BrokerConfig, Endpoint
from kavka.broker.configs import Configs
from kavka.broker.controller import Controller
from kavka.broker.dispatch import Dispatcher
from kavka.broker.duties import Duties
from kavka.broker.groups import GroupCoordinators
from kavka.broker.identity import establish_identity
from kavka.broker.metadata import LiveBroker, MetadataCache
from kavka.broker.producer_ids import ProducerIds
from kavka.broker.purgatory import Purgatory
from kavka.broker.replicas import Replicas
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.core.fetch_session import FetchSessionCache
from kavka.doors import Host, Listener
from kavka.net.connection import Connection, Limits
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import ensure_paths
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_MOST_WAITING = 100_000
_RECEIVE_BYTES = 256 * 1024


class Broker:
    """A broker over the doors of its host, on the running loop. `start` once, `stop` once."""

    def __init__(self, settings: Mapping[str, str], host: Host) -> None:
        """Parse the settings. Raise InvalidSetting, which says what is wrong."""
        self.config = BrokerConfig(settings)
        self.host = host
        self.clock = host.clock
        self.chance = host.chance
        self.configs = Configs(self.config)
        self.produce_purgatory = Purgatory(host.clock, _MOST_WAITING)
        self.fetch_purgatory = Purgatory(host.clock, _MOST_WAITING)
        self.fetch_sessions = FetchSessionCache(
            self.config.integer("max.incremental.fetch.session.cache.slots")
        )
        self.replicas = Replicas(self)
        self.dispatcher = Dispatcher(self)
        self.duties = Duties(self)
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the broker cannot go on and must be stopped."""
        self._listeners: list[Listener] = []
        self._registry_is_open = False

    # -- start

    async def start(self) -> list[Endpoint]:
        """Serve; return the endpoints that clients are told. Raise OSError, CorruptRegistry, or IdentityError."""
        try:
            return await self._start()
        except BaseException:
            await self._abandon()
            raise

    async def _start(self) -> list[Endpoint]:
        host = self.host
        self.replicas.on_all_failed = self._fail
        await self.replicas.lock()
        self.registry = await EmbeddedRegistry.open(
            host.disk, self.replicas.first_directory, host.clock, host.chance
        )
        self._registry_is_open = True
        self.registry.on_failure = self.replicas.registry_failed
        await ensure_paths(self.registry, znodes.PERSISTENT_ROOTS)
        identity = await establish_identity(self)
        self.broker_id = identity.broker_id
        self.metadata = MetadataCache(identity.cluster_id)
        self.producer_ids = ProducerIds(self.broker_id, self.registry)
        self.groups = GroupCoordinators(self)
        self.controller = Controller(
            self.broker_id,
            self.registry,
            self.metadata,
            self.configs,
            self.replicas,
            host.clock,
            host.chance,
        )
        await self._load_configs()
        await self.replicas.load()
        endpoints = await self._bind()
        await self._register(endpoints)
        await self.controller.start(bump_epochs=not self.replicas.was_clean)
        self.dispatcher.begin()
        self.duties.start()
        return endpoints

    async def _load_configs(self) -> None:
        """Learn what brokers and topics override, before the logs are opened under it."""
        for default in (True, False):
            entity = znodes.DEFAULT_ENTITY if default else str(self.broker_id)
            path = znodes.config_path("brokers", entity)
            if await self.registry.stat(path) is not None:
                data, _stat = await self.registry.get(path)
                self.configs.put_broker(znodes.decode_config(data), default=default)
        for node in await self.registry.children("/config/topics"):
            data, _stat = await self.registry.get(f"/config/topics/{node}")
            self.configs.put_topic(znodes.entity_name(node), znodes.decode_config(data))

    async def _bind(self) -> list[Endpoint]:
        """Open the listeners; return what is advertised, with the ports that were taken for 0."""
        limits = Limits(
            self.config.integer("socket.request.max.bytes"),
            self.config.integer("kavka.connection.max.in.flight"),
            self.config.integer("kavka.connection.max.in.flight.bytes"),
        )
        bound: dict[str, int] = {}
        chunk = bytearray(_RECEIVE_BYTES)
        for endpoint in self.config.listeners:

            def make(name: str = endpoint.name) -> Connection:
                return Connection(self.dispatcher, name, limits, chunk)

            listener = await self.host.network.listen(endpoint.host, endpoint.port, make)
            self._listeners.append(listener)
            bound[endpoint.name] = listener.port
        return [
            Endpoint(
                shown.name,
                shown.host or self.config.host_name(),
                shown.port or bound[shown.name],
                shown.protocol,
            )
            for shown in self.config.advertised
        ]

    async def _register(self, endpoints: list[Endpoint]) -> None:
        rack = self.config.optional("broker.rack")
        plain = [endpoint for endpoint in endpoints if endpoint.protocol == "PLAINTEXT"]
        node = znodes.BrokerNode(
            [str(endpoint) for endpoint in endpoints],
            {endpoint.name: endpoint.protocol for endpoint in endpoints},
            rack,
            self.clock.now_ms(),
            plain[0].host if plain else None,
            plain[0].port if plain else -1,
        )
        path = f"{znodes.BROKER_IDS}/{self.broker_id}"
        await self.registry.create(path, node.encode(), ephemeral=True)
        stat = await self.registry.stat(path)
        epoch = -1 if stat is None else stat.czxid
        self.metadata.brokers[self.broker_id] = LiveBroker(
            self.broker_id, tuple(endpoints), rack, epoch
        )

    # -- serving

    async def create_topic_automatically(self, name: str) -> None:
        """Create a topic because a client asked for its metadata; a refusal shows in the answer as its absence."""
        if name in self.groups.internal_topics:
            topic = self.groups.internal_topics[name]
        else:
            topic = NewTopic(name, -1, -1, {}, {})
        outcome = await self.controller.create_topic(topic, validate_only=False)
        if isinstance(outcome, TopicRefusal):
            log.info("automatic creation refused topic=%s reason=%s", name, outcome.message)

    # -- stop

    async def stop(self) -> None:
        """Stop cleanly: everything that was acknowledged is on the medium, nothing is to be recovered."""
        self._close_listeners()
        await self.duties.stop()
        await self.groups.stop()
        await self.dispatcher.stop()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()
        await self._close_storage(is_clean=True)

    async def _close_storage(self, *, is_clean: bool) -> None:
        """Close the registry before the logs: their directories hold its lock."""
        if self._registry_is_open:
            self._registry_is_open = False
            try:
                await self.registry.close()
            except (OSError, ConnectionError) as error:
                log.warning("registry not closed cleanly reason=%s", error)
        await self.replicas.close(is_clean=is_clean)

    async def _abandon(self) -> None:
        """Let go of what a failed start holds.

        After an unclean stop the next start must know of it, too: only a start that goes through raises the epochs.
        """
        self._close_listeners()
        await self._close_storage(is_clean=self.replicas.was_clean)

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
