"""A broker: its parts, its start and its stop.

    start   directories locked -> registry opened -> logs loaded -> listeners bound -> registered -> controller known
            -> requests served -> periodic tasks
    stop    leaderships handed over -> listeners closed -> coordinators stopped -> connections closed -> registry closed
            -> logs flushed and closed -> marker

A broker that stops cleanly leaves Kafka's marker, so that its next start recovers nothing.

This is the composition root: it makes the parts, each with the context and the parts that it works with, and no part
imports it. A part that is made before one that it needs is given a function, or publishes events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kavka.broker.configs.broker_config import BrokerConfig, Endpoint
from kavka.broker.context import BrokerContext
from kavka.broker.control.config_changes import ConfigChanges
from kavka.broker.control.control_requests import ControlRequests
from kavka.broker.control.controller import Controller
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.control.finalized_features import Features
from kavka.broker.control.topics import Topics
from kavka.broker.handler_parts import HandlerParts
from kavka.broker.lazy_parts import LazyParts
from kavka.broker.lifecycle.identity import establish_identity
from kavka.broker.lifecycle.listeners import Listeners
from kavka.broker.lifecycle.membership import ClusterMembership
from kavka.broker.lifecycle.periodic_tasks import PeriodicTasks
from kavka.broker.lifecycle.registries import open_registry
from kavka.broker.metadata.known_topics import KnownTopics
from kavka.broker.partition_subscribers import PartitionSubscribers
from kavka.broker.partitions.partition_events import PartitionEvents
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.quotas.connection_quotas import ConnectionQuotas
from kavka.broker.quotas.quota_manager import QuotaManager
from kavka.broker.requests.connection_limits import budget_limits
from kavka.broker.requests.dispatcher import Dispatcher
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.purgatory import Purgatory
from kavka.broker.requests.stalls import StallWarnings
from kavka.broker.security.security_parts import SecurityParts
from kavka.core.controller.events import UncleanEnabled
from kavka.core.controller.topics import NewTopic
from kavka.core.fetch_session import FetchSessionCache
from kavka.core.znodes import Operation
from kavka.ids import BrokerId, TopicPartition
from kavka.io import Environment
from kavka.net.event_loop import iterations_of
from kavka.net.request_budget import RequestBudget
from kavka.registry.interface import Registry, ensure_paths
from kavka.wire.records import kernel
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.control.producer_ids import ProducerIdManager
    from kavka.broker.coordination.coordinators import Coordinators
    from kavka.broker.coordination.group_coordinators import GroupCoordinators
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators
    from kavka.broker.coordination.verification import Verifier
    from kavka.broker.metrics.exposition import Exposition
    from kavka.broker.metrics.sources import MetricsSources
    from kavka.broker.partitions.cleaner import Cleaner
    from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager
    from kavka.broker.replication.replication_manager import ReplicationManager

log = logging.getLogger(__name__)

_MAX_WAITING = 100_000
_CLEANER_DELAY_S = 1.0
"""The first second of a broker's life is not for compaction, nor for importing it."""


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
        self.context = BrokerContext(
            self.config,
            environment,
            has_own_registry=registry is None and self.config.optional("zookeeper.connect") is None,
        )
        self.has_own_registry = self.context.has_own_registry
        self.clock, self.random = self.context.clock, self.context.random
        self.metadata = self.context.metadata
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the broker cannot continue and must be stopped."""
        self.state = BrokerState.STARTING
        self.exposition: Exposition | None = None
        """The metrics endpoint, if one is configured."""
        self._registry_is_open = False
        self._cleaner_timer: asyncio.TimerHandle | None = None
        self._make_parts()
        self._make_request_path()
        PartitionSubscribers(
            self.metadata,
            self.replica_manager.store,
            self.lazy.replication_manager,
            self.lazy.alter_log_dirs,
            self.coordinators,
            self.lazy.coordinators_of,
            self.produce_purgatory,
            self.fetch_purgatory,
        ).subscribe_to(self.partition_events)

    def _make_parts(self) -> None:
        """Make the parts that every broker has, each before those that are given it."""
        context, config, clock = self.context, self.config, self.clock
        self.produce_purgatory = Purgatory(clock, _MAX_WAITING)
        self.fetch_purgatory = Purgatory(clock, _MAX_WAITING)
        self.fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"),
            config.integer("kavka.max.incremental.fetch.session.cache.partitions"),
        )
        self.request_budget = RequestBudget(budget_limits(config, self.environment.memory_bytes))
        self.slices = Slices(clock.tick_ms)
        self.coordinators: dict[str, Coordinators[Any]] = {}
        """The existing coordinators, by their internal topics."""
        self.partition_events = PartitionEvents()
        self.replica_manager = ReplicaManager(
            context,
            self.partition_events,
            end_move=self._end_move,
            on_directory_failed=self._report_failed_directory,
            on_all_failed=self._fail,
        )
        self.dynamic_configs = DynamicConfigs(
            context,
            self.replica_manager,
            on_unclean_enabled=lambda topic: self.controller.submit(UncleanEnabled(topic)),
        )
        self.control_requests = ControlRequests(
            context,
            self.slices,
            self.replica_manager,
            self.dynamic_configs,
            coordinators=self.coordinators,
            on_brokers_known=self._brokers_known,
        )
        self.controller = Controller(
            context,
            self.control_requests,
            handle_here=self._handle_as_controller,
            adopted=self._adoption_operations,
            was_clean=lambda: self.replica_manager.was_clean,
            is_registered=lambda: self.membership.is_registered,
            has_failed=self.failed.done,
            large_work=lambda: self.dispatcher.large_work(),
        )
        self.topics = Topics(context, self.controller, self._internal_topic)
        self.quotas = QuotaManager(context, lambda quota: self.dispatcher.set_quota(quota))
        self.config_changes = ConfigChanges(context, self.dynamic_configs)
        self.config_changes.on_entity_change.append(self.quotas.entity_changed)
        self.config_changes.notifications.reloads.append(self.quotas.load)
        self.features = Features(context, self._fail)
        self.lazy = LazyParts(
            context,
            self.partition_events,
            self.replica_manager,
            self.controller,
            self.topics,
            self.request_budget,
            self.coordinators,
            self.produce_purgatory,
        )

    def _make_request_path(self) -> None:
        """Make the parts between a socket and a handler."""
        config, clock = self.config, self.clock
        self.dispatcher = Dispatcher(config, self.context.effective_configs, clock, self.slices)
        self.security = SecurityParts(
            self.context,
            self.dispatcher,
            self.config_changes,
            self.replica_manager.find,
            self.topics.auto_create,
            self.produce_purgatory,
        )
        self.listeners = Listeners(
            self.context,
            self.dispatcher,
            self.request_budget,
            self.security,
            self.dispatcher.connections.keys,
        )
        renewed = [
            part.session_renewed for part in (self.config_changes, self.features, self.security)
        ]
        self.membership = ClusterMembership(
            self.context,
            self.listeners,
            renewed_at_start=renewed,
            renewed=[self.controller.session_renewed, *renewed],
            on_failure=self._fail,
        )
        self.connection_quotas = ConnectionQuotas(
            self.context,
            self.quotas,
            lambda name, accepts: self.listeners.set_accepting(name, accepts=accepts),
            self.dispatcher.connections.keys,
        )
        self.dispatcher.set_connection_control(self.connection_quotas)
        self.periodic_tasks = PeriodicTasks(
            config, self.replica_manager, self.dispatcher.connections.keys(), clock
        )
        self.iterations = iterations_of(asyncio.get_running_loop())
        self._stall_warnings = StallWarnings(self.dispatcher.in_second_stage, clock)

    # -- parts that not every broker needs

    @property
    def producer_ids(self) -> ProducerIdManager:
        """The producer id manager."""
        return self.lazy.producer_ids.get()

    @property
    def groups(self) -> GroupCoordinators:
        """The group coordinators."""
        return self.lazy.groups.get()

    @property
    def transactions(self) -> TransactionCoordinators:
        """The transaction coordinators."""
        return self.lazy.transactions.get()

    @property
    def verifier(self) -> Verifier:
        """The verifier, which asks transaction coordinators whether a partition belongs to a transaction."""
        return self.lazy.verifier.get()

    @property
    def replication_manager(self) -> ReplicationManager:
        """The replication manager, which is made when the first other broker is known."""
        return self.lazy.replication_manager.get()

    @property
    def replication_if_started(self) -> ReplicationManager | None:
        """The replication manager, or None while no other broker is known."""
        return self.lazy.replication_manager.made

    @property
    def alter_log_dirs(self) -> AlterLogDirsManager:
        """The moves of replicas between log directories."""
        return self.lazy.alter_log_dirs.get()

    @property
    def cleaner(self) -> Cleaner | None:
        """The log cleaner, once it is started."""
        return self.lazy.cleaner.made

    # -- what parts are given of those that are made later

    async def _end_move(self, topic_partition: TopicPartition) -> None:
        if self.lazy.alter_log_dirs.made is not None:
            await self.lazy.alter_log_dirs.made.forget(topic_partition)

    def _report_failed_directory(self) -> None:
        if self.membership.has_begun:
            self.controller.log_directory_failed()

    def _brokers_known(self) -> None:
        if self.lazy.replication_manager.made is not None or len(self.metadata.brokers) > 1:
            self.replication_manager.brokers_changed()

    def _internal_topic(self, name: str) -> NewTopic | None:
        coordinators = self.lazy.coordinators_of(name)
        if coordinators is not None:
            return coordinators.internal_topic()
        return self.security.internal_topic(name)

    async def _handle_as_controller(self, request: Any) -> Any:
        from kavka.broker.control.controller_requests import handle

        return await handle(self.controller, self.producer_ids, request)

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    @property
    def registry(self) -> Registry:
        """The registry, from the start on."""
        return self.context.registry

    @property
    def broker_id(self) -> BrokerId:
        """The broker's id, -1 until the start has established it."""
        return self.context.broker_id

    # -- start

    async def start(self) -> list[Endpoint]:
        """Serve; return the advertised endpoints. Raise OSError, CorruptRegistry, or IdentityError."""
        try:
            return await self._start()
        except BaseException:
            await self.abandon()
            raise

    async def _start(self) -> list[Endpoint]:
        await self.replica_manager.lock()
        self.context.registry = self._injected_registry or await open_registry(
            self.config,
            self.environment,
            self.replica_manager.first_directory,
            self.replica_manager.registry_failed,
        )
        self._registry_is_open = True
        await ensure_paths(self.registry, znodes.PERSISTENT_ROOTS)
        identity = await establish_identity(
            self.config, self.registry, self.replica_manager, self.random
        )
        self.context.broker_id = identity.broker_id
        self.metadata.cluster_id = identity.cluster_id
        self.handler_parts = self._make_handler_parts()
        await self.config_changes.start()
        await self.dynamic_configs.load_brokers()
        self.listeners.load()
        await self.security.start()
        await self.features.start()
        known = await KnownTopics.read(self.registry)
        await self.dynamic_configs.load(known.ids)
        await self.quotas.load()
        self.metadata.expect_topics(known.ids, self.clock.tick_ms())
        await self.replica_manager.load(known.is_stray)
        endpoints = await self.listeners.bind()
        await self._start_metrics()
        await self.membership.register(endpoints, self.replica_manager.store.directories)
        if not self.has_own_registry:
            # Not before: if the id is in use, the directories must be free for another id.
            await self.replica_manager.write_meta(self.broker_id, identity.cluster_id)
        await self.controller.start(bounced=not self.replica_manager.was_clean)
        await self.features.read()  # this broker may have begun the cluster
        self.iterations.watch(
            self.config.integer("kavka.event.loop.stall.warn.ms"), self._stall_warnings.stalled
        )
        self.dispatcher.begin(self.handler_parts.bind)
        self.periodic_tasks.start()
        self.security.repeat(self.periodic_tasks, lambda: self.controller.is_active)
        if self.config.flag("log.cleaner.enable"):
            self._cleaner_timer = asyncio.get_running_loop().call_later(
                _CLEANER_DELAY_S, lambda: self.lazy.cleaner.get().start()
            )
        self.state = BrokerState.RUNNING
        if kernel.SLOW_BECAUSE:
            log.warning("compiled kernel not found reason=%s", kernel.SLOW_BECAUSE)
        return endpoints

    async def _start_metrics(self) -> None:
        """Show the metrics, where settings ask for it; without that their modules are not imported."""
        port = self.config.values["kavka.metrics.port"]
        if isinstance(port, int):
            from kavka.broker.metrics.exposition import Exposition

            self.exposition = Exposition(self.metrics_sources())
            tls = self.security.tls_of_metrics()
            await self.exposition.start(self.config.text("kavka.metrics.host"), port, tls)

    def metrics_sources(self) -> MetricsSources:
        """Return the parts with counters and states for the metrics."""
        from kavka.broker.metrics.sources import MetricsSources

        return MetricsSources(
            context=self.context,
            state=lambda: self.state,
            is_registered=lambda: self.membership.is_registered,
            iterations=self.iterations,
            dispatcher=self.dispatcher,
            security=self.security,
            request_budget=self.request_budget,
            produce_purgatory=self.produce_purgatory,
            fetch_purgatory=self.fetch_purgatory,
            fetch_sessions=self.fetch_sessions,
            controller=self.controller,
            groups=self.lazy.groups,
            coordinators=self.coordinators,
            transactions=self.lazy.transactions,
            quotas=self.quotas,
            connection_quotas=self.connection_quotas,
            replica_manager=self.replica_manager,
            replication_manager=self.lazy.replication_manager,
            cleaner=self.lazy.cleaner,
        )

    async def _adoption_operations(self) -> Sequence[Operation]:
        """Return what the first controller of this broker's own registry makes of the logs on its disks."""
        store = self.replica_manager.store
        if not self.has_own_registry or not (len(store) or store.unreadable):
            return []
        from kavka.broker.control.adoption import adoption

        return await adoption(self.context, store, self._internal_topic, self.clock.now_ms())

    # -- serving

    def _make_handler_parts(self) -> HandlerParts:
        """Return the parts that request handlers may use."""
        return HandlerParts(
            broker_id=self.broker_id,
            has_own_registry=self.has_own_registry,
            config=self.config,
            effective_configs=self.context.effective_configs,
            clock=self.clock,
            random=self.random,
            disk=self.environment.disk,
            registry=self.registry,
            slices=self.slices,
            request_budget=self.request_budget,
            metadata=self.metadata,
            features=self.features,
            quotas=self.quotas,
            replica_manager=self.replica_manager,
            topics=self.topics,
            dynamic_configs=self.dynamic_configs,
            controller=self.controller,
            control_requests=self.control_requests,
            fetch_sessions=self.fetch_sessions,
            fetch_purgatory=self.fetch_purgatory,
            produce_purgatory=self.produce_purgatory,
            lazy=self.lazy,
            security=self.security,
            access_control=self.security.access_control,
            tokens=self.security.tokens,
        )

    # -- stop

    async def stop(self) -> None:
        """Stop cleanly: everything that was acknowledged is on the medium, nothing is to be recovered.

        Where others can lead what this broker leads, they do before it stops serving.
        """
        self.state = BrokerState.STOPPING
        if self.config.flag("controlled.shutdown.enable") and len(self.metadata.brokers) > 1:
            from kavka.broker.control.controlled_shutdown import request_controlled_shutdown

            await request_controlled_shutdown(self.context, self.controller)
        self.listeners.close()
        if not self.has_own_registry:
            await self.controller.resign()
        await self._stop_parts()
        await self._close_storage(is_clean=True)

    async def abandon(self) -> None:
        """Release what the broker holds, after a start that failed at any point, or instead of a clean stop.

        No leadership moves and no log is flushed. A broker that ran leaves no marker of a clean stop. After a start
        that failed, the marker stays as it was found: only a start that goes through raises the epochs.
        """
        is_clean = self.state is BrokerState.STARTING and self.replica_manager.was_clean
        self.listeners.close()
        for connection in list(self.dispatcher.connections):
            connection.abort()
        await self._stop_parts()
        await self._close_storage(is_clean=is_clean)

    async def _stop_parts(self) -> None:
        """Stop all that works on the storage, and does so by events and timers."""
        self.iterations.unwatch(self._stall_warnings.stalled)
        if self.exposition is not None:
            await self.exposition.stop()
        await self.listeners.stop()
        await self.periodic_tasks.stop()
        self.connection_quotas.stop()
        if self._cleaner_timer is not None:
            self._cleaner_timer.cancel()
        if self.lazy.cleaner.made is not None:
            await self.lazy.cleaner.made.stop()
        for coordinators in list(self.coordinators.values()):
            await coordinators.stop()
        if self.lazy.verifier.made is not None:
            await self.lazy.verifier.made.stop()
        await self.dispatcher.stop()
        if self.lazy.control_request_check.made is not None:
            await self.lazy.control_request_check.made.stop()
        await self.config_changes.stop()
        await self.features.stop()
        await self.security.stop()
        await self.controller.stop()
        await self.membership.stop()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()

    async def _close_storage(self, *, is_clean: bool) -> None:
        """Close the logs and the registry.

        The own registry first: the directories of the logs hold its lock. A shared one last, as in Apache Kafka: once
        the registration is gone others may be elected, so by then the logs are complete.
        """
        if self.has_own_registry:
            await self._close_registry()
        try:
            if self.lazy.replication_manager.made is not None:
                await self.lazy.replication_manager.made.stop()
            if self.lazy.alter_log_dirs.made is not None:
                await self.lazy.alter_log_dirs.made.stop()
            await self.replica_manager.close(
                is_clean=is_clean, broker_epoch=self.context.broker_epoch
            )
        finally:
            await self._close_registry()

    async def _close_registry(self) -> None:
        if self._registry_is_open:
            self._registry_is_open = False
            try:
                await self.registry.close()
            except (OSError, ConnectionError) as error:
                log.warning("registry not closed cleanly reason=%s", error)
