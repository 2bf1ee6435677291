"""`kavka zookeeper-security-migration`: protect a cluster's znodes, or open them, as Kafka's script does.

New znodes are protected by brokers with `zookeeper.set.acl=true`; this command gives those that exist the same access
lists.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kavka.cli.arguments.options import BadUsage, BadValue, Given, Option, OptionSet
from kavka.cli.zookeeper.connection import (
    SESSION_MS,
    TLS_OPTION,
    Connection,
    has_identity,
    with_registry,
)
from kavka.core.znodes import ZnodeError
from kavka.registry.interface import RegistryRefused, ensure_path, existing_children
from kavka.registry.zookeeper import ZooKeeperRegistry
from kavka.registry.zookeeper_access import SECURE_ROOTS, kafkas_access_list, open_access_list
from kavka.settings.declaration import InvalidSetting

_NEVER_MADE = ("/controller", "/migration")
"""Znodes whose existence means something to brokers."""
_LISTS = {"secure": kafkas_access_list, "unsecure": open_access_list}

OPTIONS = OptionSet(
    "ZooKeeper Migration Tool Help. This tool updates the ACLs of znodes as part of the process of setting up "
    "ZooKeeper authentication.",
    Option("zookeeper.acl", "secure: the znodes are the brokers'; unsecure: they are open to all.", "which"),
    Option("zookeeper.connect", "host:port,host:port/chroot; by default localhost:2181.", "urls"),
    Option("zookeeper.session.timeout", "Session timeout in milliseconds; by default 30000.", "ms"),
    Option("zookeeper.connection.timeout", "Time to wait for a connection; by default 30000.", "ms"),
    Option("enable.path.check", "Change nothing when one of the cluster's root znodes is missing."),
    Option(TLS_OPTION, "A properties file with zookeeper.ssl.* to connect with TLS.", "file"),
    asks_a_broker=False,
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the command; 1 when ZooKeeper refused, or there is no identity to protect the znodes for."""
    return OPTIONS.run(argv or ["--help"], _act)


def _act(given: Given) -> int:
    which = given.text("zookeeper.acl")
    if which not in _LISTS:
        raise BadUsage(f"zookeeper.acl must be secure or unsecure, not {which}")
    tls_file = given.one(TLS_OPTION)
    try:
        if not has_identity(tls_file):
            raise BadValue(
                "No JAAS configuration file and no TLS client certificate has been specified: set "
                "KAFKA_OPTS=-Djava.security.auth.login.config=FILE, a file with a section Client, or name a file with "
                f"zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location by --{TLS_OPTION}"
            )
    except InvalidSetting as error:
        raise BadValue(str(error)) from error
    connection = Connection(
        given.one("zookeeper.connect") or "localhost:2181",
        tls_file,
        _LISTS[which],
        given.integer("zookeeper.session.timeout") or SESSION_MS,
        given.integer("zookeeper.connection.timeout") or SESSION_MS,
    )
    checks = given.has("enable.path.check")

    async def act(registry: ZooKeeperRegistry) -> int:
        try:
            return await _migrate(registry, checks)
        except (ConnectionError, RegistryRefused) as error:
            print(
                f"The znodes are changed in part: {error}. Run the command again.", file=sys.stderr
            )
            return 1

    return with_registry(connection, act)


async def _migrate(registry: ZooKeeperRegistry, checks: bool) -> int:
    missing = [path for path in SECURE_ROOTS if await registry.stat(path) is None]
    if missing:
        print(
            "Warning: The following secure root paths do not exist in ZooKeeper: "
            f"{','.join(missing)}\n"
            "That might be due to an incorrect chroot is specified when executing the command."
        )
        if checks:
            print("Exit the command.")
            return 1
    await registry.secure("/")
    for path in SECURE_ROOTS:
        if path not in _NEVER_MADE:
            await ensure_path(registry, path)
        await _secure_below(registry, [path])
    return 0


async def _secure_below(registry: ZooKeeperRegistry, paths: Sequence[str]) -> None:
    """Change the access lists of nodes and of all below them; one that went meanwhile is passed over."""
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        try:
            await registry.secure(path)
        except RegistryRefused as refused:
            if refused.error is not ZnodeError.NO_NODE:
                raise
            continue
        waiting += [f"{path}/{name}" for name in await existing_children(registry, path)]
