"""Notifications of changed settings: each broker reads the changed ones, and applies them.

`/config/changes/config_change_NNNNNNNNNN` names an entity; its settings are in its own znode. Source: Kafka's
`ZkConfigManager`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kavka.broker.context import BrokerContext
from kavka.broker.control.change_notifications import ChangeNotifications
from kavka.broker.control.dynamic_configs import DynamicConfigs
from kavka.registry.interface import decode_or_none
from kavka.wire.stored import znodes


class ConfigChanges:
    """Follows the notifications."""

    def __init__(self, context: BrokerContext, dynamic_configs: DynamicConfigs) -> None:
        """Follow nothing before `start`."""
        self._context = context
        self._dynamic_configs = dynamic_configs
        self.on_entity_change: list[Callable[[str], Awaitable[None]]] = []
        """Called with the path below `/config` of a changed entity that is no topic and no broker, `users/alice` say.

        Each may raise ConnectionError: then all are called again.
        """
        self.notifications = ChangeNotifications(
            context,
            {znodes.CONFIG_CHANGE: self._apply},
            "changes of settings not read",
        )
        self.notifications.reloads.append(dynamic_configs.reload)

    async def start(self) -> None:
        """Follow from now on: what was changed before is to be read after this. Raise ConnectionError."""
        await self.notifications.mark_seen()
        self.notifications.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self.notifications.stop()

    def session_renewed(self) -> None:
        """Note that the watch is gone, and perhaps changes were missed."""
        self.notifications.session_renewed()

    async def _apply(self, data: bytes, path: str) -> None:
        entity = decode_or_none(data, znodes.decode_config_change, path)
        if entity is None:
            return
        kind, _slash, node = entity.partition("/")
        own = str(self._context.broker_id)
        if kind not in ("topics", "brokers"):
            for entity_changed in self.on_entity_change:
                await entity_changed(entity)
            return
        overrides = await self._dynamic_configs.stored(f"/config/{kind}/{node}") or {}
        name = znodes.entity_name(node)
        if kind == "topics":
            # Of a topic that is not known the settings are read when it is: by its name it may be one that is gone.
            if self._context.effective_configs.knows(name):
                self._dynamic_configs.topic_configured(name, overrides)
        elif name in (own, znodes.DEFAULT_ENTITY):
            is_default = name == znodes.DEFAULT_ENTITY
            self._dynamic_configs.broker_configured(overrides, default=is_default)
