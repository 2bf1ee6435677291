"""Checks of produced batches that are too large for the loop's thread: in the pool, one after the other.

One at a time, since a check may take as much memory as a batch may decompress to, twice for zstd; and a thread of the
pool is kept from the disk meanwhile.
"""

from __future__ import annotations

import asyncio

from kavka.io import Disk
from kavka.wire.records.batch_check import BatchCheck


class BatchChecks:
    """Finishes the checks of one broker, in the order in which they are asked for."""

    def __init__(self, disk: Disk) -> None:
        """Use the pool of the broker's disk."""
        self._disk = disk
        self.lock = asyncio.Lock()
        """Held while a check is in the pool."""

    async def finish(self, check: BatchCheck) -> None:
        """Run a check in the pool when those before it are done, and wait for it."""
        async with self.lock:
            await self._disk.run(check.finish)
