"""Settings that change while the broker runs: stored in the registry, and applied.

A change is the znode of a topic or broker with a notification for all brokers (`control.config_changes`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kavka.broker.configs.effective_configs import stored_overrides
from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.core.znodes import Create, Operation, SetData, ZnodeError
from kavka.ids import TopicId
from kavka.registry.interface import RegistryRefused, gathered, require_no_node
from kavka.settings.access import SECRET
from kavka.settings.dynamic import is_password
from kavka.wire.stored import znodes

if TYPE_CHECKING:
    from kavka.broker.configs.stored_passwords import StoredPasswords

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64


class DynamicConfigs:
    """Changes the settings of topics and brokers, and applies those that were changed."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        on_unclean_enabled: Callable[[str | None], None],
    ) -> None:
        """`on_unclean_enabled` is called when a topic, or with None any, may have unclean leaders from now on."""
        self.context = context
        self._effective_configs = context.effective_configs
        self._replica_manager = replica_manager
        self._on_unclean_enabled = on_unclean_enabled
        self._config_lock = asyncio.Lock()
        if context.config.optional(SECRET) is not None:
            assert self.passwords is not None  # made now: the settings may be wrong

    @cached_property
    def passwords(self) -> StoredPasswords:
        """The encryption of passwords, made when the first one is set or stored. Raise InvalidSetting."""
        from kavka.broker.configs.stored_passwords import StoredPasswords

        return StoredPasswords(self.context.config, self.context.random.random_bytes)

    def _decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        return self.passwords.decoded(stored) if any(map(is_password, stored)) else dict(stored)

    async def load_brokers(self) -> None:
        """Read the overrides of brokers, before listeners are made with them. Raise ConnectionError."""
        for default in (True, False):
            entity = znodes.DEFAULT_ENTITY if default else str(self.context.broker_id)
            path = znodes.config_path("brokers", entity)
            stored = await self.stored(path)
            if stored is not None:
                if not default:
                    stored = await self._encoded_again(path, stored)
                self._effective_configs.put_broker(self._decoded(stored), default=default)

    async def _encoded_again(self, path: str, stored: dict[str, str]) -> dict[str, str]:
        """Encrypt by the new secret what is stored by the old one, and return what is stored then."""
        while (
            any(map(is_password, stored))
            and (changed := self.passwords.encoded_again(stored)) is not None
        ):
            data, stat = await self.context.registry.get(path)
            if stored_overrides(data, path) != stored:
                stored = stored_overrides(data, path)
                continue
            try:
                await self.context.registry.set(path, znodes.encode_config(changed), stat.version)
            except RegistryRefused as refused:
                if refused.error is not ZnodeError.BAD_VERSION:
                    raise
                continue
            log.info("stored passwords encrypted with the new secret path=%s", path)
            return changed
        return stored

    async def load(self, topics: Mapping[str, TopicId]) -> None:
        """Read the overrides of these topics, before logs are opened with them.

        What is left of a topic that is gone belongs to no topic, also when there is one of its name again.
        """
        for topic, topic_id in topics.items():
            stored = await self.stored(znodes.config_path("topics", topic))
            if stored is not None:
                self._effective_configs.put_topic(topic, stored, topic_id)

    async def reload(self) -> None:
        """Read all overrides again, and apply those that are others than before. Raise ConnectionError.

        A topic whose settings are gone keeps those that it had: it is about to be deleted, and not to be cleaned by the
        defaults before.
        """
        for default in (True, False):
            entity = znodes.DEFAULT_ENTITY if default else str(self.context.broker_id)
            overrides = await self.stored(znodes.config_path("brokers", entity)) or {}
            if self._decoded(overrides) != self._effective_configs.broker_overrides(
                default=default
            ):
                self.broker_configured(overrides, default=default)
        await gathered(self._reload_topic, self._effective_configs.known_topics(), _AT_ONCE)

    async def _reload_topic(self, name: str) -> None:
        overrides = await self.stored(znodes.config_path("topics", name))
        # At once: what is written here meanwhile has a notification, which is read behind this.
        is_changed = overrides != self._effective_configs.topic_overrides(name)
        if overrides is not None and is_changed and self._effective_configs.knows(name):
            self.topic_configured(name, overrides)

    async def stored(self, path: str) -> dict[str, str] | None:
        """Return what a znode of settings overrides, None where there is none. Raise ConnectionError if it is unknown.

        A topic whose settings are unknown must not be served, or cleaned, with the defaults.
        """
        try:
            data, _stat = await self.context.registry.get(path)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None
        return stored_overrides(data, path)

    async def configure_topic(self, name: str, make: Callable[[], Mapping[str, str]]) -> None:
        """Store the overrides that `make` gives a topic, and apply them; `make` sees the newest that are stored."""
        path = znodes.config_path("topics", name)
        async with self._config_lock:
            overrides = await self._store(
                path,
                f"topics/{path.rsplit('/', 1)[1]}",
                lambda stored: self._effective_configs.put_topic(name, stored),
                make,
            )
            self.topic_configured(name, overrides)

    async def configure_broker(
        self, make: Callable[[], Mapping[str, str]], *, default: bool
    ) -> None:
        """Store the dynamic overrides that `make` gives this broker, or all, and apply them; `make` as above.

        They have passwords in plain text, which are stored encrypted.
        """
        entity = znodes.DEFAULT_ENTITY if default else str(self.context.broker_id)
        before: dict[str, str] = {}

        def read(stored: dict[str, str]) -> None:
            before.clear()
            before.update(stored)
            self._effective_configs.put_broker(self._decoded(stored), default=default)

        def encoded() -> Mapping[str, str]:
            made = make()
            return self.passwords.encoded(made, before) if any(map(is_password, made)) else made

        async with self._config_lock:
            overrides = await self._store(
                znodes.config_path("brokers", entity),
                f"brokers/{entity}",
                read,
                encoded,
            )
            self.broker_configured(overrides, default=default)
        await asyncio.gather(*self._effective_configs.applications)

    def topic_configured(
        self, name: str, overrides: Mapping[str, str], topic_id: TopicId | None = None
    ) -> None:
        """Apply the overrides of a topic; the id is given when it may be another topic than the one that was known."""
        was_known = self._effective_configs.knows(name)
        self._effective_configs.put_topic(name, overrides, topic_id)
        if was_known:  # nothing is hosted of a topic before its settings are known
            self._replica_manager.reconfigure(name)
        if self._effective_configs.topic(name)["unclean.leader.election.enable"] is True:
            self._on_unclean_enabled(name)

    def broker_configured(self, overrides: Mapping[str, str], *, default: bool) -> None:
        """Apply the dynamic overrides of this broker, or of all, as they are stored: with encrypted passwords."""
        self._effective_configs.put_broker(self._decoded(overrides), default=default)
        self._replica_manager.reconfigure()
        if self._effective_configs.broker_values()["unclean.leader.election.enable"] is True:
            self._on_unclean_enabled(None)

    async def _store(
        self,
        path: str,
        entity: str,
        read: Callable[[dict[str, str]], object],
        make: Callable[[], Mapping[str, str]],
    ) -> Mapping[str, str]:
        """Replace what is stored, unless another broker does so meanwhile: then with what is stored then."""
        registry = self.context.registry
        while True:
            write: list[Operation]
            if await registry.stat(path) is None:
                overrides = make()
                write = [Create(path, znodes.encode_config(overrides))]
            else:
                data, stat = await registry.get(path)
                read(stored_overrides(data, path))
                overrides = make()
                write = [SetData(path, znodes.encode_config(overrides), stat.version)]
            change = znodes.encode_config_change(entity)
            write.append(Create(znodes.CONFIG_CHANGE, change, sequence=True))
            try:
                await registry.multi(write)
            except RegistryRefused as refused:
                if refused.error in (ZnodeError.BAD_VERSION, ZnodeError.NODE_EXISTS):
                    continue
                raise
            return overrides
