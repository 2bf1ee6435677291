"""The finalised features of the cluster, from `/feature`: every broker watches it and returns them to clients."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kavka.broker.context import BrokerContext
from kavka.broker.control.watch_loop import WatchLoop
from kavka.core.features import TRANSACTION_VERSION, Levels, unsupported
from kavka.registry.interface import RegistryRefused, decode_or_none
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)


class Features:
    """Follows the znode; `failed` is called for a finalised level that this release does not support."""

    def __init__(self, context: BrokerContext, failed: Callable[[str], None]) -> None:
        """Begin without finalized features; `start` reads them."""
        self._context = context
        self._failed = failed
        self.epoch = -1
        """The node's version, which grows with every change; -1 while there is no node."""
        self.levels: Levels = {}
        self._watch_loop = WatchLoop(self.read, log, "features not read")

    @property
    def transaction_version(self) -> int:
        """The level of `transaction.version`."""
        return self.levels.get(TRANSACTION_VERSION, 0)

    async def start(self) -> None:
        """Read the levels and watch them from now on. Raise ConnectionError."""
        await self.read()
        self._watch_loop.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._watch_loop.stop()

    def session_renewed(self) -> None:
        """Note that the watch is gone, and perhaps a change was missed."""
        self._watch_loop.notify()

    async def read(self) -> None:
        """Read the finalized features. Raise ConnectionError."""
        registry = self._context.registry
        if await registry.stat(znodes.FEATURE, self._watch_loop.notify) is None:
            return
        try:
            data, stat = await registry.get(znodes.FEATURE)
        except RegistryRefused:
            return  # removed meanwhile; the watch fires
        if stat.version <= self.epoch:
            return
        levels = decode_or_none(data, znodes.decode_features, znodes.FEATURE)
        if levels is None:
            return
        self.epoch, self.levels = stat.version, levels
        log.info("features finalised epoch=%d levels=%s", self.epoch, levels)
        beyond = unsupported(levels)
        if beyond:
            names = ", ".join(beyond)
            self._failed(f"the cluster has finalised features that this release lacks: {names}")
