"""Records that were taken and are neither written nor given up: counted, waited for, dropped."""

from __future__ import annotations

import asyncio

from kavka.client.producer.accumulator import Accumulator
from kavka.client.producer.pending_flushes import PendingFlushes
from kavka.client.producer.records_awaiting_metadata import RecordsAwaitingMetadata
from kavka.client.producer.sender import Sender


class OutstandingRecords:
    """All records on their way: first those whose topic is not known yet, then those in batches."""

    def __init__(
        self,
        awaiting_metadata: RecordsAwaitingMetadata,
        accumulator: Accumulator,
        flushes: PendingFlushes,
        sender: Sender,
    ) -> None:
        """Take the places where records wait, and the sender of their batches."""
        self._awaiting_metadata = awaiting_metadata
        self._accumulator = accumulator
        self._flushes = flushes
        self._sender = sender

    def count(self) -> int:
        """Return how many records there are."""
        batches = self._accumulator.incomplete
        return sum(batch.count for batch in batches) + self._awaiting_metadata.count()

    async def wait_until_done(self) -> None:
        """Wait for the records that there are now, until their callbacks have returned."""
        await self._awaiting_metadata.wait_until_appended()
        await self._flushes.wait()
        await asyncio.sleep(0)  # callbacks of futures run in the next iteration of the loop

    async def wait_until_written(self) -> None:
        """Wait until there are no records, later ones included."""
        while self._awaiting_metadata or self._accumulator.incomplete:
            await self._awaiting_metadata.wait_until_appended()
            await self._flushes.wait()

    async def drop_unsent(self, error: Exception) -> None:
        """Fail with `error` the records that are not on the wire."""
        await self._awaiting_metadata.close(error)
        self._sender.drop_unsent(error)
