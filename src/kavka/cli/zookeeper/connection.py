"""From `host:port,host:port/chroot` to a session with the registry.

The identity of a tool is Kafka's way: a JAAS file in KAFKA_OPTS, or the certificate in the file of TLS settings.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from kavka.core.znode_access import AccessList
from kavka.net.clock import SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.jaas_files import login_of_file, settings_of_environment
from kavka.registry.zookeeper import ZooKeeperRegistry
from kavka.registry.zookeeper_access import (
    ZooKeeperAccess,
    kafkas_access_list,
    open_access_list,
)
from kavka.registry.zookeeper_tls import (
    network_to_zookeeper,
    shows_certificate,
    tls_settings_of_file,
)
from kavka.settings.declaration import Value
from kavka.values import frozen

TLS_OPTION = "zk-tls-config-file"
SESSION_MS = 30_000
"""The session timeout of ZooKeeper's own shell."""


@frozen
class Connection:
    """The way of a tool to ZooKeeper."""

    connect: str
    tls_file: str | None = None
    """A file of properties `zookeeper.ssl.*`, None for plain text."""
    access_list: Callable[[str], AccessList] = open_access_list
    """Of nodes that are made."""
    session_ms: int = SESSION_MS
    connection_ms: int = SESSION_MS


def has_identity(tls_file: str | None) -> bool:
    """Return whether a tool has an identity at ZooKeeper: a login, or a certificate. Raise InvalidSetting."""
    if settings_of_environment(os.environ):
        return True
    return tls_file is not None and shows_certificate(tls_settings_of_file(tls_file))


def as_broker(connect: str, tls_file: str | None = None) -> Connection:
    """Return the way of a tool that makes what brokers read: theirs alone if the tool has an identity.

    Raise InvalidSetting.
    """
    access_list = kafkas_access_list if has_identity(tls_file) else open_access_list
    return Connection(connect, tls_file, access_list)


def print_sentence(error: Exception) -> int:
    """Print why a command cannot be done, and return 1."""
    print(error, file=sys.stderr)
    return 1


def with_registry(
    connection: str | Connection,
    act: Callable[[ZooKeeperRegistry], Awaitable[int]],
    failed: Callable[[Exception], int] = print_sentence,
) -> int:
    """Run `act` with a session and return its exit code, or that of `failed` when none answers or it refuses."""
    chosen = Connection(connection) if isinstance(connection, str) else connection
    return asyncio.run(_run(chosen, act, failed))


async def _run(
    connection: Connection,
    act: Callable[[ZooKeeperRegistry], Awaitable[int]],
    failed: Callable[[Exception], int],
) -> int:
    try:
        registry = await _open(connection)
    except (ValueError, ConnectionError) as error:
        return failed(error)
    try:
        return await act(registry)
    except ConnectionError as error:
        return failed(error)
    finally:
        await registry.close()


async def _open(connection: Connection) -> ZooKeeperRegistry:
    values: dict[str, Value] = {"zookeeper.ssl.client.enable": False}
    if connection.tls_file is not None:
        values = tls_settings_of_file(connection.tls_file)
    login = settings_of_environment(os.environ)
    read_login = partial(
        login_of_file,
        login.get("kavka.zookeeper.jaas.file"),
        login.get("kavka.zookeeper.jaas.section", ""),
        "KAFKA_OPTS",
    )
    read_login()
    return await ZooKeeperRegistry.open(
        network_to_zookeeper(values, TcpNetwork()),
        SystemRandom(),
        connection.connect,
        session_timeout_ms=connection.session_ms,
        connection_timeout_ms=connection.connection_ms,
        access=ZooKeeperAccess(read_login, connection.access_list),
    )
