"""Notifications of changes: sequential znodes, each of which every broker reads once.

Their payload says what has changed; the change itself is in another znode. They are removed after a quarter of an hour.
Source: Kafka's `ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.registry.interface import RegistryRefused, Watch, require_no_node

_KEPT_MS: Final = 15 * 60_000


class ChangeNotifications:
    """The notifications that are the children of one znode."""

    def __init__(
        self, context: BrokerContext, root: str, apply: Callable[[bytes, str], Awaitable[None]]
    ) -> None:
        """Read none before `start`; `apply` is called with the payload and the path of each."""
        self._context = context
        self._root = root
        self._apply = apply
        self.seen = ""
        """The name of the last one that was applied, or was there at the start."""

    async def start(self, watch: Watch) -> None:
        """Count those that are there as seen; `watch` is called when there are others. Raise ConnectionError."""
        names = await self._context.registry.children(self._root, watch)
        self.seen = names[-1] if names else ""

    async def read(self, watch: Watch) -> None:
        """Apply the new ones in their order, and remove old ones. Raise ConnectionError, and what `apply` raises."""
        registry = self._context.registry
        for name in await registry.children(self._root, watch):
            path = f"{self._root}/{name}"
            try:
                data, stat = await registry.get(path)
                if name > self.seen:
                    await self._apply(data, path)
                    self.seen = name
                if self._context.clock.now_ms() - stat.ctime_ms > _KEPT_MS:
                    await registry.delete(path)
            except RegistryRefused as refused:
                require_no_node(refused)  # another broker has removed it
