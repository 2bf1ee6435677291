"""The broker as a member of its cluster: registered at its start, and again in each later session of the registry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from kavka.broker.configs.broker_config import Endpoint
from kavka.broker.context import BrokerContext
from kavka.broker.lifecycle.identity import refuse_other_cluster
from kavka.broker.lifecycle.listeners import Listeners
from kavka.broker.lifecycle.previous_sessions import PreviousSessions
from kavka.broker.lifecycle.registration import Registration, broker_node
from kavka.broker.lifecycle.registries import connection_timeout_ms
from kavka.broker.metadata.cache import LiveBroker
from kavka.storage.directory.log_directory import LogDirectory

log = logging.getLogger(__name__)

_TIMEOUT_SESSIONS = 2
"""Session timeouts to wait for an older registration: a registry that restarts begins each timeout again."""


class ClusterMembership:
    """Registers the broker and keeps its epoch in the context."""

    def __init__(
        self,
        context: BrokerContext,
        listeners: Listeners,
        *,
        renewed_at_start: Sequence[Callable[[], None]],
        renewed: Sequence[Callable[[], None]],
        on_failure: Callable[[str], None],
    ) -> None:
        """Take what is called, in order, when a session has ended and another has registered: at the start, or later.

        `on_failure` is called with the reason when the broker cannot be registered again.
        """
        self._context = context
        self._listeners = listeners
        self._renewed_at_start = renewed_at_start
        self._renewed = renewed
        self._on_failure = on_failure
        self._registration: Registration | None = None

    @property
    def has_begun(self) -> bool:
        """True from the first attempt to register on."""
        return self._registration is not None

    @property
    def is_registered(self) -> bool:
        """True while this session's node is in the registry, as far as is known."""
        return self._registration is not None and self._registration.epoch >= 0

    async def register(
        self, endpoints: Sequence[Endpoint], directories: Sequence[LogDirectory]
    ) -> None:
        """Register these endpoints, and stay registered. Raise IdentityError, ConnectionError, RegistryRefused."""
        context = self._context
        # No session of a registry of its own outlives this process.
        previous_sessions = PreviousSessions([] if context.has_own_registry else directories)
        await previous_sessions.load()
        config, registry = context.config, context.registry
        self._registration = registration = Registration(
            registry,
            context.environment.network,
            context.broker_id,
            lambda: broker_node(config, self._listeners.advertised(), context.clock.now_ms()),
            previous_sessions,
            session_timeout_ms=_TIMEOUT_SESSIONS * config.integer("zookeeper.session.timeout.ms"),
            same_cluster=partial(refuse_other_cluster, registry, context.metadata.cluster_id),
        )
        epoch = await self._first_epoch(registration)
        context.broker_epoch = epoch
        context.metadata.brokers[context.broker_id] = LiveBroker(
            context.broker_id, tuple(endpoints), config.optional("broker.rack"), epoch
        )
        registration.keep_registered(self._registered_again, self._on_failure)
        self._listeners.follow_settings(registration.update)

    async def _first_epoch(self, registration: Registration) -> int:
        """Register, in another session when the first ended while logs were recovered; return the broker epoch."""
        try:
            return await registration.register()
        except ConnectionError as error:
            if self._context.has_own_registry:
                raise
            log.warning("not registered yet reason=%s", error)
        epoch = await registration.register_again(
            connection_timeout_ms(self._context.config) / 1000
        )
        for renewed in self._renewed_at_start:
            renewed()
        return epoch

    async def _registered_again(self, epoch: int) -> None:
        """Continue in another session: nothing of the one before is left in the registry."""
        self._context.broker_epoch = epoch
        for renewed in self._renewed:
            renewed()

    async def stop(self) -> None:
        """Stop registering again."""
        if self._registration is not None:
            await self._registration.stop()
