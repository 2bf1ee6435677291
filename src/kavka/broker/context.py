"""The context of the parts of a broker: settings, I/O, the metadata cache, the registry, the broker's identity.

It knows no part. `Broker` makes one, and gives it to each part, or what the part uses of it, with the parts that this
one works with.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.configs.endpoints import Endpoints
from kavka.broker.metadata.cache import MetadataCache
from kavka.ids import BrokerId
from kavka.io import Environment
from kavka.net.peer_security import PLAINTEXT
from kavka.registry.interface import Registry


class BrokerContext:
    """The environment of a broker's parts."""

    registry: Registry
    """Set by `Broker.start`, before the first part uses it."""

    def __init__(
        self, config: BrokerConfig, environment: Environment, *, has_own_registry: bool
    ) -> None:
        """Take the settings; the start finds the identity."""
        self.config = config
        """The settings of the start: what the file and the command line say, with defaults."""
        self.effective_configs = EffectiveConfigs(config)
        """The settings in force now: those of topics, and of the broker with what was changed while it runs."""
        self.endpoints = config.endpoints
        """The listeners that the broker has now, or is about to open; changed by `set_endpoints`."""
        self.on_endpoints_change: list[Callable[[], None]] = []
        self.environment = environment
        self.clock = environment.clock
        self.random = environment.random
        self.metadata = MetadataCache()
        self.peer_security = PLAINTEXT
        """The security of connections to other brokers; set by `Broker` before the first is made."""
        self.has_own_registry = has_own_registry
        """True if the registry is this broker's own, on its first log directory."""
        self.broker_id = BrokerId(-1)
        """-1 until the start has established it."""
        self.broker_epoch = -1
        """The epoch of this broker's newest registration, -1 before the first."""

    def set_endpoints(self, endpoints: Endpoints) -> None:
        """Set the listeners from now on; to be called before they are opened."""
        self.endpoints = endpoints
        for callback in self.on_endpoints_change:
            callback()
