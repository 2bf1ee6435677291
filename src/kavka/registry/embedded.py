"""The registry of a lone broker: a keeper in this process, durable by its journal.

Its one session never expires.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.doors import Chance, Clock, Disk
from kavka.registry.keeper import Keeper
from kavka.registry.session import Session


class EmbeddedRegistry(Session):
    """Implements `Registry` for the one process that holds the directory's lock."""

    def __init__(self, keeper: Keeper) -> None:
        """Use `open` instead."""
        super().__init__(keeper, None)
        self._owned = keeper

    @classmethod
    async def open(
        cls, disk: Disk, directory: str, clock: Clock, chance: Chance
    ) -> EmbeddedRegistry:
        """Read the journal, drop the ephemeral nodes of the processes before, and begin a session."""
        keeper = await Keeper.open(disk, directory, clock, chance)
        for seat in keeper.seats():  # of a time when the directory was served on a port
            keeper.end(seat)
        await keeper.synced()
        return cls(keeper)

    @property
    def on_failure(self) -> Callable[[OSError], None] | None:
        """Told once when the journal can no longer be written: the broker must stop."""
        return self._owned.on_failure

    @on_failure.setter
    def on_failure(self, told: Callable[[OSError], None] | None) -> None:
        self._owned.on_failure = told

    async def close(self) -> None:
        """End the session and fold the journal."""
        try:
            if not self._owned.has_failed:
                await super().close()
        finally:
            await self._owned.close()
