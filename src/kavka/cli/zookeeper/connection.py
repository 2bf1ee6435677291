"""From `host:port,host:port/chroot` to a session with the registry."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from kavka.net.clock import SystemRandom
from kavka.net.network import TcpNetwork
from kavka.registry.zookeeper import ZooKeeperRegistry

_SESSION_MS = 30_000
"""The session timeout of ZooKeeper's own shell."""


def with_registry(connect: str, act: Callable[[ZooKeeperRegistry], Awaitable[int]]) -> int:
    """Run `act` with a session and return its exit code; 1, after one sentence, when no member answers."""
    return asyncio.run(_run(connect, act))


async def _run(connect: str, act: Callable[[ZooKeeperRegistry], Awaitable[int]]) -> int:
    try:
        registry = await ZooKeeperRegistry.open(
            TcpNetwork(),
            SystemRandom(),
            connect,
            session_timeout_ms=_SESSION_MS,
            connection_timeout_ms=_SESSION_MS,
        )
    except (ValueError, ConnectionError) as error:
        print(error, file=sys.stderr)
        return 1
    try:
        return await act(registry)
    finally:
        await registry.close()
