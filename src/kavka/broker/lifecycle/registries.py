"""Choice of the registry: ZooKeeper or a server of its protocol with zookeeper.connect, else the embedded one."""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.io import Environment
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import Registry


async def open_registry(
    config: BrokerConfig,
    environment: Environment,
    directory: str,
    failed: Callable[[OSError], None],
) -> Registry:
    """Begin a session.

    The broker's own registry lives in `directory`; `failed` is called when its journal cannot be written. Raise
    ConnectionError when no ZooKeeper answers, ValueError when `zookeeper.connect` cannot be read, CorruptRegistry.
    """
    connect = config.optional("zookeeper.connect")
    if connect is None:
        embedded = await EmbeddedRegistry.open(
            environment.disk, directory, environment.clock, environment.random
        )
        embedded.on_failure = failed
        return embedded
    from kavka.registry.zookeeper import ZooKeeperRegistry  # a lone broker starts without it

    return await ZooKeeperRegistry.open(
        environment.network,
        environment.random,
        connect,
        session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
        connection_timeout_ms=connection_timeout_ms(config),
    )


def connection_timeout_ms(config: BrokerConfig) -> int:
    """Return for how long a start waits until the registry answers: a session's timeout, unless that is set."""
    chosen = config.values["zookeeper.connection.timeout.ms"]
    return chosen if isinstance(chosen, int) else config.integer("zookeeper.session.timeout.ms")
