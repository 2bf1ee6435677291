"""The registry of a single broker: a znode server in this process, durable by its journal.

Its one session never expires.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.io import Clock, Disk, Random
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer


class EmbeddedRegistry(LocalSession):
    """Implements `Registry` for the one process that holds the directory's lock."""

    def __init__(self, znode_server: ZnodeServer) -> None:
        """Use `open` instead."""
        super().__init__(znode_server, None)
        self._owned = znode_server

    @classmethod
    async def open(
        cls, disk: Disk, directory: str, clock: Clock, random: Random
    ) -> EmbeddedRegistry:
        """Read the journal, drop the ephemeral nodes of the processes before, and begin a session."""
        znode_server = await ZnodeServer.open(disk, directory, clock, random)
        for session in znode_server.sessions():  # of a time when the directory was served on a port
            znode_server.end(session)
        await znode_server.synced()
        return cls(znode_server)

    @property
    def on_failure(self) -> Callable[[OSError], None] | None:
        """Called once when the journal can no longer be written: the broker must stop."""
        return self._owned.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[OSError], None] | None) -> None:
        self._owned.on_failure = callback

    async def close(self) -> None:
        """End the session, write a snapshot and close the journal."""
        try:
            if not self._owned.has_failed:
                await super().close()
        finally:
            await self._owned.close()
