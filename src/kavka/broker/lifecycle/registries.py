"""Choice of the registry: ZooKeeper or a server of its protocol with zookeeper.connect, else the embedded one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.io import Environment
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import Registry

if TYPE_CHECKING:
    from kavka.registry.zookeeper_access import ZooKeeperAccess


async def open_registry(
    config: BrokerConfig,
    environment: Environment,
    directory: str,
    failed: Callable[[OSError], None],
) -> Registry:
    """Begin a session.

    The broker's own registry lives in `directory`; `failed` is called when its journal cannot be written. Raise
    ConnectionError when no ZooKeeper answers, ValueError when `zookeeper.connect` cannot be read, or a key or trust
    store, CorruptRegistry.
    """
    connect = config.optional("zookeeper.connect")
    if connect is None:
        embedded = await EmbeddedRegistry.open(
            environment.disk, directory, environment.clock, environment.random
        )
        embedded.on_failure = failed
        return embedded
    from kavka.registry.zookeeper import ZooKeeperRegistry  # a lone broker starts without it
    from kavka.registry.zookeeper_tls import network_to_zookeeper

    return await ZooKeeperRegistry.open(
        network_to_zookeeper(config.values, environment.network),
        environment.random,
        connect,
        session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
        connection_timeout_ms=connection_timeout_ms(config),
        access=_access(config),
    )


def _access(config: BrokerConfig) -> ZooKeeperAccess:
    """Return the broker's identity at ZooKeeper, and the access lists of the nodes that it makes.

    Raise InvalidSetting when the JAAS file cannot be used now; later it is read for each connection.
    """
    from kavka.registry.jaas_files import login_of_file
    from kavka.registry.zookeeper_access import (
        ZooKeeperAccess,
        kafkas_access_list,
        open_access_list,
    )

    file = config.optional("kavka.zookeeper.jaas.file")
    read_login = partial(login_of_file, file, config.text("kavka.zookeeper.jaas.section"))
    read_login()  # what is wrong with it ends the start
    secures = config.flag("zookeeper.set.acl")
    return ZooKeeperAccess(
        read_login if file else None, kafkas_access_list if secures else open_access_list
    )


def connection_timeout_ms(config: BrokerConfig) -> int:
    """Return for how long a start waits until the registry answers: a session's timeout, unless that is set."""
    chosen = config.values["zookeeper.connection.timeout.ms"]
    return chosen if isinstance(chosen, int) else config.integer("zookeeper.session.timeout.ms")
