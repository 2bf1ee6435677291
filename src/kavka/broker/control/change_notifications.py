"""Notifications of changes: sequential znodes, each of which every broker reads once.

Their payload says what has changed; the change itself is in another znode. They are removed after a quarter of an hour.
After a session that was lost all is read again: notifications may have come and gone meanwhile.
Source: Kafka's `ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.control.watch_loop import WatchLoop
from kavka.registry.interface import RegistryRefused, require_no_node

log = logging.getLogger(__name__)

_KEPT_MS: Final = 15 * 60_000

Apply = Callable[[bytes, str], Awaitable[None]]
"""Takes the payload and the path of a notification."""


class ChangeNotifications:
    """Follows the notifications of some kinds."""

    def __init__(
        self,
        context: BrokerContext,
        appliers: Mapping[str, Apply],
        failure_message: str,
    ) -> None:
        """Follow none before `start`; `appliers` are by the path of the notifications without their numbers.

        `failure_message` is logged where the registry cannot be read.
        """
        self._context = context
        self._appliers = appliers
        self.seen = dict.fromkeys(appliers, "")
        """By path, the name of the last notification that was applied, or was there at the start."""
        self.reloads: list[Callable[[], Awaitable[None]]] = []
        """Each reads again all that it follows; it may raise ConnectionError."""
        self.must_reload = False
        """True until `reloads` have been called."""
        self._watch_loop = WatchLoop(self._read, log, failure_message)

    async def mark_seen(self) -> None:
        """Count the notifications that are there as seen, and watch for others. Raise ConnectionError."""
        for prefix in self._appliers:
            names = await self._names(prefix)
            self.seen[prefix] = names[-1] if names else ""

    def start(self) -> None:
        """Apply what comes, from `mark_seen` on."""
        self._watch_loop.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._watch_loop.stop()

    def session_renewed(self) -> None:
        """Note that the watches are gone, and perhaps changes were missed."""
        self.must_reload = True
        self._watch_loop.notify()

    async def _names(self, prefix: str) -> list[str]:
        """Return the names of notifications, in order, and watch for others.

        A node of another name is none: what is behind it in the order would count as seen.
        """
        root, _slash, start = prefix.rpartition("/")
        names = await self._context.registry.children(root, self._watch_loop.notify)
        return [name for name in names if name.startswith(start)]

    async def _read(self) -> None:
        for prefix in self._appliers:
            for name in await self._names(prefix):
                await self._follow(prefix, name)
        if self.must_reload:
            await self._reload()

    async def _follow(self, prefix: str, name: str) -> None:
        registry = self._context.registry
        path = f"{prefix.rpartition('/')[0]}/{name}"
        try:
            data, stat = await registry.get(path)
            if name > self.seen[prefix]:
                await self._apply(prefix, data, path)
                self.seen[prefix] = name
            if self._context.clock.now_ms() - stat.ctime_ms > _KEPT_MS:
                await registry.delete(path)
        except RegistryRefused as refused:
            require_no_node(refused)  # another broker has removed it

    async def _apply(self, prefix: str, data: bytes, path: str) -> None:
        try:
            await self._appliers[prefix](data, path)
        except RegistryRefused as refused:
            # It names what can be no znode: the notifications behind it count all the same.
            log.error("notification not applied znode=%s reason=%s", path, refused)

    async def _reload(self) -> None:
        self.must_reload = False  # the session may change once more meanwhile
        try:
            for reload in self.reloads:
                await reload()
        except BaseException:
            self.must_reload = True
            raise
