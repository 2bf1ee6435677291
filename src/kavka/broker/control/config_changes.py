"""Notifications of changed settings: each broker reads the changed ones, and applies them.

`/config/changes/config_change_NNNNNNNNNN` names an entity; its settings are in its own znode. Notifications are removed
after a quarter of an hour. Source: Kafka's `ZkConfigManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from kavka.broker.context import BrokerContext
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.broker.control.watch_loop import WatchLoop
from kavka.registry.interface import RegistryRefused, require_no_node
from kavka.registry.znode_decoding import decode_or_none
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

_KEPT_MS = 15 * 60_000


class ConfigChanges:
    """Follows the notifications."""

    def __init__(
        self,
        context: BrokerContext,
        dynamic_configs: DynamicConfigs,
        entity_changed: Callable[[str], Awaitable[None]],
    ) -> None:
        """Follow nothing before `start`; `entity_changed` is given other entities than topics and brokers."""
        self._context = context
        self._entity_changed = entity_changed
        self._dynamic_configs = dynamic_configs
        self._seen = ""
        self.user_changed: Callable[[str], Awaitable[None]] | None = None
        """Called with the path below `/config/users` that has changed; it may raise ConnectionError."""
        self.reloads: list[Callable[[], Awaitable[None]]] = []
        """Called in another session of the registry: each reads all that it follows again. They may raise the same."""
        self._must_reload = False
        self._watch_loop = WatchLoop(self._read, log, "changes of settings not read")

    async def start(self) -> None:
        """Follow from now on: what was changed before is to be read after this. Raise ConnectionError."""
        names = await self._notifications()
        self._seen = names[-1] if names else ""
        self._watch_loop.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._watch_loop.stop()

    def session_renewed(self) -> None:
        """Note that the watch is gone, and perhaps changes were missed."""
        self._must_reload = True
        self._watch_loop.notify()

    async def _notifications(self) -> list[str]:
        """Return the names of the notifications, in order, and watch for others.

        A node of another name is none: what is behind it in the order would count as followed.
        """
        names = await self._context.registry.children(
            znodes.CONFIG_CHANGES, self._watch_loop.notify
        )
        prefix = znodes.CONFIG_CHANGE.removeprefix(f"{znodes.CONFIG_CHANGES}/")
        return [name for name in names if name.startswith(prefix)]

    async def _read(self) -> None:
        registry = self._context.registry
        for name in await self._notifications():
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            try:
                data, stat = await registry.get(path)
                if name > self._seen:
                    await self._followed(data, path)
                    self._seen = name
                if self._context.clock.now_ms() - stat.ctime_ms > _KEPT_MS:
                    await registry.delete(path)
            except RegistryRefused as refused:
                require_no_node(refused)  # another broker has removed it
        if self._must_reload:
            await self._reload()

    async def _reload(self) -> None:
        """Read all: notifications may have come and gone, and a credential that was revoked must not stay."""
        self._must_reload = False  # the session may change once more meanwhile
        try:
            for reload in self.reloads:
                await reload()
        except BaseException:
            self._must_reload = True
            raise

    async def _followed(self, data: bytes, path: str) -> None:
        try:
            await self._apply(data, path)
        except RegistryRefused as refused:
            # It names what can be no znode: the notifications behind it count all the same.
            log.error("changed settings not read znode=%s reason=%s", path, refused)

    async def _apply(self, data: bytes, path: str) -> None:
        entity = decode_or_none(data, znodes.decode_config_change, path)
        if entity is None:
            return
        kind, _slash, node = entity.partition("/")
        own = str(self._context.broker_id)
        if kind == "users" and self.user_changed is not None:
            await self.user_changed(node)
        if kind not in ("topics", "brokers"):
            await self._entity_changed(entity)
            return
        overrides = await self._dynamic_configs.stored(f"/config/{kind}/{node}") or {}
        name = znodes.entity_name(node)
        if kind == "topics":
            # Of a topic that is not known the settings are read when it is: by its name it may be one that is gone.
            if self._context.configs.knows(name):
                self._dynamic_configs.topic_configured(name, overrides)
        elif name in (own, znodes.DEFAULT_ENTITY):
            is_default = name == znodes.DEFAULT_ENTITY
            self._dynamic_configs.broker_configured(overrides, default=is_default)
