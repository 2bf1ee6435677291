"""A served registry in a thread with a loop of its own, for tests of commands, which run loops themselves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer

USERS = {"kafka": "kafka-secret", "alice": "alice-secret"}
"""The users who may log in to a registry that was given `jaas_file`."""
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def jaas_file(directory: Path, user: str = "kafka", password: str | None = None) -> Path:
    """Write a JAAS file with the server's users and a client's login."""
    path = directory / f"jaas-{user}.conf"
    users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
    chosen = USERS[user] if password is None else password
    path.write_text(
        f"KafkaServer {{ some.Module required; other.Module required; }};\n"
        f"Server {{ {_MODULE} {users}; }};\n"
        f'Client {{ {_MODULE} username="{user}" password="{chosen}"; }};\n'
    )
    return path


@contextmanager
def served_registry(**settings: str) -> Iterator[RegistryServer]:
    """Serve an empty tree in memory; names have `__` for dots."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    async def start() -> RegistryServer:
        named = {name.replace("__", "."): text for name, text in settings.items()}
        chosen = {"clientPort": "0", "clientPortAddress": "127.0.0.1", **named}
        config = RegistryServerConfig.parse(chosen)
        registry = RegistryServer(ZnodeServer(SystemClock(), SystemRandom()), config, TcpNetwork())
        await registry.start()
        return registry

    registry = call(start())
    try:
        yield registry
    finally:
        call(registry.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
