"""The registry without a broker, ZooKeeper or a broker's own, and SCRAM credentials in it.

Brokers that reach each other by SCRAM cannot be asked to create the user by which they do so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.broker.configs.entity_configs import edit_entity_config
from kavka.broker.security.scram_credentials import USERS, stored_credentials
from kavka.cli.arguments.options import BadValue
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.entities import credential_rows
from kavka.cli.text.standard_streams import is_output_failure
from kavka.cli.users.scram import credentials_line
from kavka.cli.zookeeper.connection import as_broker, with_registry
from kavka.client.admin import ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kavka.client.admin.user_credentials import SALT_BYTES
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, ScramCredential
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import Registry, ensure_paths
from kavka.settings.declaration import InvalidSetting
from kavka.storage.directory.log_directory import LOCK_FILE
from kavka.storage.disk.os_disk import OsDisk
from kavka.wire.stored import znodes

Act = Callable[[Registry], Awaitable[int]]
Failed = Callable[[Exception], int]
"""Prints why something cannot be done, and returns the exit code."""


def in_zookeeper(connect: str, tls_file: str | None, act: Act, failed: Failed) -> int:
    """Run `act` with a session at ZooKeeper; 1, after one sentence, when no member answers.

    With an identity, znodes are made for the brokers', as by brokers with zookeeper.set.acl=true.
    """
    try:
        connection = as_broker(connect, tls_file)
    except InvalidSetting as error:
        return failed(error)
    return with_registry(connection, act, failed)


def in_log_directory(directory: str, act: Act, failed: Failed) -> int:
    """Run `act` with the registry that a broker without zookeeper.connect keeps in its first log directory.

    1, after one sentence, while the broker runs.
    """
    try:
        return asyncio.run(_with_own_registry(directory, act))
    except BlockingIOError:
        return failed(
            BadValue(f"{directory} is in use by a broker: ask the broker, with --bootstrap-server")
        )
    except OSError as error:
        if is_output_failure(error):
            raise
        return failed(BadValue(f"{directory}: {error}"))


async def _with_own_registry(directory: str, act: Act) -> int:
    disk = OsDisk(1)
    disk.make_directories(directory)
    lock = disk.lock(f"{directory}/{LOCK_FILE}")
    try:
        registry = await EmbeddedRegistry.open(disk, directory, SystemClock(), SystemRandom())
        try:
            await ensure_paths(registry, znodes.PERSISTENT_ROOTS)
            return await act(registry)
        finally:
            await registry.close()
    finally:
        lock.release()


def alter(changes: list[ScramUpsertion | ScramDeletion]) -> Act:
    """Return what makes the changes of one user; it prints nothing."""
    user = changes[0].user

    def edit(config: dict[str, str]) -> dict[str, str]:
        for change in changes:
            if isinstance(change, ScramDeletion):
                if config.pop(change.mechanism, None) is None:
                    raise BadValue(f"Invalid config(s): {change.mechanism}")
            else:
                mechanism = SCRAM_MECHANISMS[change.mechanism]
                salt = SystemRandom().random_bytes(SALT_BYTES)
                credential = ScramCredential.of_password(
                    mechanism, salt, change.password, change.iterations
                )
                config[change.mechanism] = credential.encode()
        return config

    async def act(registry: Registry) -> int:
        await ensure_paths(registry, [f"/config/{USERS}", znodes.CONFIG_CHANGES])
        await edit_entity_config(registry, f"{USERS}/{znodes.sanitized_name(user)}", edit)
        return 0

    return act


def describe(user: str | None, *, as_json: bool) -> Act:
    """Return what prints the credentials of a user, or of all; never what they are made of."""

    async def act(registry: Registry) -> int:
        found = await stored_credentials(registry, None if user is None else [user])
        for name, credentials in found.items():
            infos = [
                ScramCredentialInfo(mechanism, credential.iterations)
                for mechanism, credential in credentials.items()
            ]
            if as_json:
                print_rows(shapes.CREDENTIAL, credential_rows(name, infos))
            else:
                print(credentials_line(name, infos))
        return 0

    return act
