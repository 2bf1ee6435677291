"""One broker: its parts, its start and its stop.

    start   directories locked -> registry opened -> logs loaded -> listeners bound -> registered -> controller known
            -> requests served -> duties
    stop    leaderships handed over -> listeners closed -> coordinators stopped -> connections closed -> registry closed
            -> logs flushed and closed -> marker

A broker that stops cleanly leaves Kafka's marker, so that its next start recovers nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from kavka.broker.config import BrokerConfig, Endpoint
from kavka.broker.configs import Configs, stored_overrides
from kavka.broker.control.config_changes import ConfigChanges
from kavka.broker.control.controller import Controller
from kavka.broker.control_requests import ControlRequests
from kavka.broker.features import Features
from kavka.broker.identity import establish_identity, refuse_other_cluster
from kavka.broker.known_topics import KnownTopics
from kavka.broker.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, LiveBroker, MetadataCache
from kavka.broker.pace import Slices
from kavka.broker.periodic_tasks import PeriodicTasks
from kavka.broker.previous_sessions import PreviousSessions
from kavka.broker.purgatory import Purgatory
from kavka.broker.registration import Registration
from kavka.broker.registries import connection_timeout_ms, open_registry
from kavka.broker.replica_manager import ReplicaManager
from kavka.broker.requests.connection_limits import budget_limits
from kavka.broker.requests.dispatcher import Dispatcher
from kavka.broker.requests.stalls import StallWarnings
from kavka.broker.services import LazyServices, Services
from kavka.broker.topics import Topics
from kavka.core import features
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.core.fetch_session import FetchSessionCache
from kavka.core.znodes import Operation, ZnodeError
from kavka.errors import ErrorCode
from kavka.io import Environment, Listener
from kavka.net.connection import Connection, Limits
from kavka.net.event_loop import turns_of
from kavka.net.request_budget import RequestBudget
from kavka.registry.interface import Registry, RegistryRefused, ensure_paths
from kavka.wire.records import kernel
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.batch_checks import BatchChecks
    from kavka.broker.cleaner import Cleaner
    from kavka.broker.control_request_check import ControlRequestCheck
    from kavka.broker.coordination.coordinators import Coordinators
    from kavka.broker.coordination.groups import GroupCoordinators
    from kavka.broker.coordination.transactions import TransactionCoordinators
    from kavka.broker.coordination.verification import Verifier
    from kavka.broker.encoded_topics import EncodedTopics
    from kavka.broker.metrics.exposition import Exposition
    from kavka.broker.producer_ids import ProducerIdManager

log = logging.getLogger(__name__)

_MAX_WAITING = 100_000
_RECEIVE_BYTES = 256 * 1024
_CLEANER_DELAY_S = 1.0
"""The first second of a broker's life is not for compaction, nor for importing it."""
_REGISTRY_TIMEOUT_SESSIONS = 2
"""Session timeouts to wait for an older registration: a registry that restarts begins each timeout again."""


class BrokerState(IntEnum):
    """The state of a broker, by Kafka's numbers."""

    STARTING = 1
    RUNNING = 3
    STOPPING = 6
    """Handing over what it leads, then ending."""


class Broker:
    """A broker over the I/O of its environment, on the running loop. `start` once, `stop` once."""

    def __init__(
        self,
        settings: Mapping[str, str],
        environment: Environment,
        registry: Registry | None = None,
    ) -> None:
        """Parse the settings. Raise InvalidSetting, which says what is wrong.

        `registry` is a session for this broker alone, instead of the one that the settings choose.
        """
        self._injected_registry = registry
        self.config = BrokerConfig(settings)
        self.environment = environment
        self.clock = environment.clock
        self.random = environment.random
        self.configs = Configs(self.config)
        self.produce_purgatory = Purgatory(environment.clock, _MAX_WAITING)
        self.fetch_purgatory = Purgatory(environment.clock, _MAX_WAITING)
        self.fetch_sessions = FetchSessionCache(
            self.config.integer("max.incremental.fetch.session.cache.slots"),
            self.config.integer("kavka.max.incremental.fetch.session.cache.partitions"),
        )
        self.request_budget = RequestBudget(budget_limits(self.config, environment.memory_bytes))
        self.replica_manager = ReplicaManager(self)
        self.control_requests = ControlRequests(self)
        self.topics = Topics(self)
        self.has_own_registry = (
            registry is None and self.config.optional("zookeeper.connect") is None
        )
        """True if the registry is this broker's own, on its first log directory."""
        self.controller = Controller(self, self._adoption_operations)
        self.config_changes = ConfigChanges(self)
        self.features = Features(self, self._fail)
        self.slices = Slices(environment.clock.tick_ms)
        self.dispatcher = Dispatcher(self.config, self.configs, self.clock, self.slices)
        self.periodic_tasks = PeriodicTasks(
            self.config, self.replica_manager, self.dispatcher.connections.keys(), environment.clock
        )
        self.turns = turns_of(asyncio.get_running_loop())
        self._stall_warnings = StallWarnings(self.dispatcher.in_second_stage, environment.clock)
        self.cleaner: Cleaner | None = None
        """The log cleaner, once it is started."""
        self._cleaner_timer: asyncio.TimerHandle | None = None
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the broker cannot go on and must be stopped."""
        self.registration: Registration | None = None
        self._listeners: list[Listener] = []
        self._registry_is_open = False
        self.exposition: Exposition | None = None
        """The metrics endpoint, if one is configured."""
        self.coordinators: dict[str, Coordinators[Any]] = {}
        """Those that there are so far, by their internal topics."""
        self.state = BrokerState.STARTING

    # -- start

    async def start(self) -> list[Endpoint]:
        """Serve; return the advertised endpoints. Raise OSError, CorruptRegistry, or IdentityError."""
        try:
            return await self._start()
        except BaseException:
            await self._abandon()
            raise

    async def _start(self) -> list[Endpoint]:
        environment = self.environment
        self.replica_manager.on_all_failed = self._fail
        await self.replica_manager.lock()
        self.registry = self._injected_registry or await open_registry(
            self.config,
            environment,
            self.replica_manager.first_directory,
            self.replica_manager.registry_failed,
        )
        self._registry_is_open = True
        await ensure_paths(self.registry, znodes.PERSISTENT_ROOTS)
        identity = await establish_identity(
            self.config, self.registry, self.replica_manager, self.random
        )
        self.broker_id = identity.broker_id
        self.metadata = MetadataCache(identity.cluster_id)
        self.services = self._make_services()
        await self.config_changes.start()
        await self.features.start()
        known = await KnownTopics.read(self.registry)
        await self._load_configs(known)
        self.metadata.expect_topics(known.ids, self.clock.tick_ms())
        await self.replica_manager.load(known.is_stray)
        endpoints = await self._bind()
        await self._start_metrics()
        await self._register(endpoints)
        if not self.has_own_registry:
            # Not before: directories of a broker whose id is in use must be free for another id.
            await self.replica_manager.write_meta(self.broker_id, identity.cluster_id)
        await self.controller.start(bounced=not self.replica_manager.was_clean)
        await self.features.read()  # this broker may have begun the cluster
        self.turns.watch(
            self.config.integer("kavka.event.loop.stall.warn.ms"), self._stall_warnings.stalled
        )
        self.dispatcher.begin(self.services)
        self.periodic_tasks.start()
        if self.config.flag("log.cleaner.enable"):
            loop = asyncio.get_running_loop()
            self._cleaner_timer = loop.call_later(_CLEANER_DELAY_S, self._start_cleaner)
        self.state = BrokerState.RUNNING
        if kernel.SLOW_BECAUSE:
            log.warning("compiled kernel not found reason=%s", kernel.SLOW_BECAUSE)
        return endpoints

    def _start_cleaner(self) -> None:
        from kavka.broker.cleaner import Cleaner

        self.cleaner = Cleaner(self.configs, self.replica_manager, self.clock)
        self.cleaner.start()

    async def _start_metrics(self) -> None:
        """Show the metrics, where settings ask for it; who does not want them does not pay for the modules."""
        port = self.config.values["kavka.metrics.port"]
        if isinstance(port, int):
            from kavka.broker.metrics.exposition import Exposition

            self.exposition = Exposition(self)
            await self.exposition.start(self.config.text("kavka.metrics.host"), port)

    async def _adoption_operations(self) -> Sequence[Operation]:
        """Return what the first controller of this broker's own registry makes of the logs on its disks."""
        store = self.replica_manager.store
        logs = [*store.unreadable, *(each.topic_partition for each in store)]
        if not self.has_own_registry or not logs:
            return []
        from kavka.broker.control.adoption import adoption

        internal = {
            topic: coordinators.internal_topic().config
            for topic in sorted({each.topic for each in logs})
            if (coordinators := self.coordinators_of(topic)) is not None
        }
        return await adoption(
            store,
            self.environment.disk,
            self.broker_id,
            self.random,
            self.clock.now_ms(),
            internal,
        )

    async def _load_configs(self, known: KnownTopics) -> None:
        """Learn what brokers and topics override, before the logs are opened under it.

        What is left of a topic that is gone is nobody's, also when there is one of its name again.
        """
        for default in (True, False):
            entity = znodes.DEFAULT_ENTITY if default else str(self.broker_id)
            stored = await self._stored(znodes.config_path("brokers", entity))
            if stored is not None:
                self.configs.put_broker(stored, default=default)
        for topic, topic_id in known.ids.items():
            stored = await self._stored(znodes.config_path("topics", topic))
            if stored is not None:
                self.configs.put_topic(topic, stored, topic_id)

    async def _stored(self, path: str) -> dict[str, str] | None:
        """Return what a znode of settings overrides, None where there is none: topics are deleted meanwhile, too."""
        try:
            data, _stat = await self.registry.get(path)
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NO_NODE:
                raise
            return None
        return stored_overrides(data, path)

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
                return Connection(self.dispatcher, name, limits, chunk, self.request_budget)

            listener = await self.environment.network.listen(endpoint.host, endpoint.port, make)
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
            features.SUPPORTED,
        )
        # No session of a registry of its own outlives this process.
        previous_sessions = PreviousSessions(
            [] if self.has_own_registry else self.replica_manager.store.directories
        )
        await previous_sessions.load()
        self.registration = Registration(
            self.registry,
            self.environment.network,
            self.broker_id,
            lambda: node,
            previous_sessions,
            session_timeout_ms=_REGISTRY_TIMEOUT_SESSIONS
            * self.config.integer("zookeeper.session.timeout.ms"),
            same_cluster=partial(refuse_other_cluster, self.registry, self.metadata.cluster_id),
        )
        epoch = await self._registered(self.registration)
        self.control_requests.broker_epoch = epoch
        self.metadata.brokers[self.broker_id] = LiveBroker(
            self.broker_id, tuple(endpoints), rack, epoch
        )
        self.registration.keep_registered(self._registered_again, self._fail)

    async def _registered(self, registration: Registration) -> int:
        """Register, in another session when the first ended while logs were recovered; return the broker epoch."""
        try:
            return await registration.register()
        except ConnectionError as error:
            if self.has_own_registry:
                raise
            log.warning("not registered yet reason=%s", error)
        epoch = await registration.register_again(connection_timeout_ms(self.config) / 1000)
        self.config_changes.session_renewed()
        self.features.session_renewed()
        return epoch

    async def _registered_again(self, epoch: int) -> None:
        """Go on in another session: nothing of the one before is left in the registry."""
        self.control_requests.broker_epoch = epoch
        self.controller.session_renewed()
        self.config_changes.session_renewed()
        self.features.session_renewed()

    # -- parts that not every broker needs: they are imported and made when somebody first asks for them

    @cached_property
    def encoded_topics(self) -> EncodedTopics:
        """Topics as Metadata answers have them."""
        from kavka.broker.encoded_topics import EncodedTopics

        return EncodedTopics(self.metadata)

    @cached_property
    def groups(self) -> GroupCoordinators:
        """Return the group coordinators."""
        from kavka.broker.coordination.groups import GroupCoordinators

        clock, disk = self.environment.clock, self.environment.disk
        create = self.topics.auto_create
        groups = GroupCoordinators(
            self.config, self.metadata, clock, disk, create, is_single_broker=self.has_own_registry
        )
        self.coordinators[OFFSETS_TOPIC] = groups
        return groups

    @cached_property
    def transactions(self) -> TransactionCoordinators:
        """Return the transaction coordinators."""
        from kavka.broker.coordination.marker_appends import write_markers
        from kavka.broker.coordination.transactions import TransactionCoordinators

        transactions = TransactionCoordinators(self, partial(write_markers, self.services))
        self.coordinators[TRANSACTIONS_TOPIC] = transactions
        return transactions

    def coordinators_of(self, topic: str) -> Coordinators[Any] | None:
        """Return who coordinates over an internal topic; None for any other topic."""
        if topic == OFFSETS_TOPIC:
            return self.groups
        return self.transactions if topic == TRANSACTIONS_TOPIC else None

    @cached_property
    def control_request_check(self) -> ControlRequestCheck:
        """The judge of orders that come over the network."""
        from kavka.broker.control_request_check import ControlRequestCheck

        return ControlRequestCheck(self)

    @cached_property
    def producer_ids(self) -> ProducerIdManager:
        """Return the producer id manager."""
        from kavka.broker.producer_ids import ProducerIdManager

        return ProducerIdManager(self)

    @cached_property
    def batch_checks(self) -> BatchChecks:
        """The checks of produced batches that leave the loop's thread."""
        from kavka.broker.batch_checks import BatchChecks

        return BatchChecks(self.environment.disk)

    @cached_property
    def verifier(self) -> Verifier:
        """Return the verifier, which asks transaction coordinators whether a partition belongs to a transaction."""
        from kavka.broker.coordination.verification import Verifier

        return Verifier(self)

    # -- serving

    def _make_services(self) -> Services:
        """Return the parts that request handlers may use."""
        return Services(
            broker_id=self.broker_id,
            has_own_registry=self.has_own_registry,
            config=self.config,
            configs=self.configs,
            clock=self.clock,
            random=self.random,
            disk=self.environment.disk,
            registry=self.registry,
            slices=self.slices,
            request_budget=self.request_budget,
            metadata=self.metadata,
            features=self.features,
            replica_manager=self.replica_manager,
            topics=self.topics,
            controller=self.controller,
            control_requests=self.control_requests,
            fetch_sessions=self.fetch_sessions,
            fetch_purgatory=self.fetch_purgatory,
            produce_purgatory=self.produce_purgatory,
            create_topic_automatically=self.create_topic_automatically,
            lazy=LazyServices(
                batch_checks=lambda: self.batch_checks,
                control_request_check=lambda: self.control_request_check,
                encoded_topics=lambda: self.encoded_topics,
                groups=lambda: self.groups,
                producer_ids=lambda: self.producer_ids,
                transactions=lambda: self.transactions,
                verifier=lambda: self.verifier,
            ),
        )

    async def create_topic_automatically(self, name: str) -> ErrorCode:
        """Create a topic because a client asked for its metadata; return why not, or that its leader is on the way."""
        keeper = self.coordinators_of(name)
        topic = NewTopic(name, -1, -1, {}, {}) if keeper is None else keeper.internal_topic()
        outcome = await self.topics.auto_create(topic)
        if isinstance(outcome, TopicRefusal):
            log.info("automatic creation refused topic=%s reason=%s", name, outcome.message)
            if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                return outcome.code
        return ErrorCode.LEADER_NOT_AVAILABLE

    # -- stop

    async def stop(self) -> None:
        """Stop cleanly: everything that was acknowledged is on the medium, nothing is to be recovered.

        Where others can lead what this broker leads, they do before it stops serving.
        """
        self.state = BrokerState.STOPPING
        if self.config.flag("controlled.shutdown.enable") and len(self.metadata.brokers) > 1:
            from kavka.broker.control.controlled_shutdown import request_controlled_shutdown

            await request_controlled_shutdown(self)
        self._close_listeners()
        if not self.has_own_registry:
            await self.controller.resign()
        await self._stop_parts()
        await self._close_storage(is_clean=True)

    async def kill(self) -> None:
        """End as a killed process does, as far as that can be in one that lives on: for tests and the simulation.

        Nobody is told, nothing is handed over or flushed, and the session of a given registry goes on until it expires.
        """
        self._close_listeners()
        for connection in list(self.dispatcher.connections):
            connection.abort()
        await self._stop_parts()
        if self._injected_registry is not None:
            self._registry_is_open = False
        await self._close_storage(is_clean=False)

    async def _stop_parts(self) -> None:
        """Stop all that works on the storage, and does so by events and timers."""
        self.turns.unwatch(self._stall_warnings.stalled)
        if self.exposition is not None:
            await self.exposition.stop()
        await self.periodic_tasks.stop()
        if self._cleaner_timer is not None:
            self._cleaner_timer.cancel()
        if self.cleaner is not None:
            await self.cleaner.stop()
        for coordinators in list(self.coordinators.values()):
            await coordinators.stop()
        if "verifier" in vars(self):
            await self.verifier.stop()
        await self.dispatcher.stop()
        if "order_admission" in vars(self):
            await self.control_request_check.stop()
        await self.config_changes.stop()
        await self.features.stop()
        await self.controller.stop()
        if self.registration is not None:
            await self.registration.stop()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()

    async def _close_storage(self, *, is_clean: bool) -> None:
        """Close the registry before the logs: their directories hold its lock."""
        if self._registry_is_open:
            self._registry_is_open = False
            try:
                await self.registry.close()
            except (OSError, ConnectionError) as error:
                log.warning("registry not closed cleanly reason=%s", error)
        await self.replica_manager.close(
            is_clean=is_clean, broker_epoch=self.control_requests.broker_epoch
        )

    async def _abandon(self) -> None:
        """Let go of what a failed start holds.

        After an unclean stop the next start must know of it, too: only a start that goes through raises the epochs.
        """
        self._close_listeners()
        if self.exposition is not None:
            await self.exposition.stop()
        await self.config_changes.stop()
        await self.features.stop()
        await self.controller.stop()
        if self.registration is not None:
            await self.registration.stop()
        await self._close_storage(is_clean=self.replica_manager.was_clean)

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
