"""What producer, consumer and admin client have in common: checked settings, doors, and one way to open."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from kavka.client.cluster import Cluster
from kavka.client.config import Config
from kavka.client.setting_names import check_names
from kavka.doors import Chance, Clock, Network
from kavka.net.clock import SystemChance, SystemClock
from kavka.net.network import TcpNetwork
from kavka.settings.declaration import Catalogue

log = logging.getLogger(__name__)


_is_said = False


def _say_once_that_it_is_slow() -> None:
    """Warn the author of a program, once in a process, that the compiled kernel is missing."""
    global _is_said
    from kavka.wire.records import kernel

    if kernel.SLOW_BECAUSE and not _is_said:
        _is_said = True
        log.warning("compiled kernel not found reason=%s", kernel.SLOW_BECAUSE)


class Client(ABC):
    """Settings and doors from the constructor on, a cluster from `start` to `close`."""

    _catalogue: Catalogue
    _creates_topics = False
    """Whether asking for metadata may create a topic."""
    _handles_records = True
    """Whether it encodes or decodes records, for which the compiled kernel is there."""
    _cluster: Cluster

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`.

        A mistyped name is refused, too; one without effect is warned of (`setting_names`).
        """
        check_names(self._catalogue, config)
        self._config = Config(self._catalogue, config)
        self._network = network or TcpNetwork()
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self._is_open = False

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Connect. Raise ConnectionError when none of `bootstrap.servers` answers."""
        self._cluster = Cluster(
            self._config,
            network=self._network,
            clock=self._clock,
            chance=self._chance,
            allow_auto_create=self._creates_topics,
        )
        self._build()
        await self._cluster.start()
        self._is_open = True
        if self._handles_records:
            _say_once_that_it_is_slow()

    @abstractmethod
    def _build(self) -> None:
        """Make what works on the cluster; it is not connected yet."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    def _require_open(self) -> None:
        if not self._is_open:
            raise RuntimeError(f"the {type(self).__name__.lower()} is not open")
