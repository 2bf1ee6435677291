"""Choice of the registry: ZooKeeper or a server of its protocol with zookeeper.connect, else the embedded one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.io import Environment, Network
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import Registry
from kavka.settings.declaration import InvalidSetting, Value

_SOCKET_CLASS: Final = "zookeeper.clientCnxnSocket"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
"""The class of ZooKeeper's Java client that speaks TLS."""


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

    return await ZooKeeperRegistry.open(
        _network_to_zookeeper(config, environment.network),
        environment.random,
        connect,
        session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
        connection_timeout_ms=connection_timeout_ms(config),
    )


def _network_to_zookeeper(config: BrokerConfig, network: Network) -> Network:
    if not config.flag("zookeeper.ssl.client.enable"):
        return network
    socket_class = config.optional(_SOCKET_CLASS)
    if socket_class not in (None, _NETTY):
        reason = f"with zookeeper.ssl.client.enable=true it must be {_NETTY}, or be left out"
        raise InvalidSetting(_SOCKET_CLASS, socket_class, reason)
    from kavka.net.tls.client import ReloadableClientTls, TlsNetwork
    from kavka.net.tls.failures import ZOOKEEPER
    from kavka.net.tls.settings import parse_settings

    settings = parse_settings(_zookeeper_tls(config).get, prefix="zookeeper.")
    return TlsNetwork(network, ReloadableClientTls(settings, "zookeeper"), ZOOKEEPER)


def _zookeeper_tls(config: BrokerConfig) -> dict[str, Value]:
    """Return the settings of TLS to ZooKeeper, by the names of those to brokers."""
    from kavka.net.tls.settings import type_of_file

    key_store = config.optional("zookeeper.ssl.keystore.location")
    trust_store = config.optional("zookeeper.ssl.truststore.location")
    return {
        "ssl.keystore.location": key_store,
        "ssl.keystore.type": config.optional("zookeeper.ssl.keystore.type")
        or type_of_file(key_store),
        "ssl.keystore.password": config.optional("zookeeper.ssl.keystore.password"),
        "ssl.key.password": config.optional("zookeeper.ssl.keystore.password"),
        "ssl.truststore.location": trust_store,
        "ssl.truststore.type": config.optional("zookeeper.ssl.truststore.type")
        or type_of_file(trust_store),
        "ssl.truststore.password": config.optional("zookeeper.ssl.truststore.password"),
        "ssl.enabled.protocols": config.values["zookeeper.ssl.enabled.protocols"]
        or [config.text("zookeeper.ssl.protocol")],
        "ssl.cipher.suites": config.values["zookeeper.ssl.cipher.suites"],
        "ssl.endpoint.identification.algorithm": config.optional(
            "zookeeper.ssl.endpoint.identification.algorithm"
        ),
    }


def connection_timeout_ms(config: BrokerConfig) -> int:
    """Return for how long a start waits until the registry answers: a session's timeout, unless that is set."""
    chosen = config.values["zookeeper.connection.timeout.ms"]
    return chosen if isinstance(chosen, int) else config.integer("zookeeper.session.timeout.ms")
