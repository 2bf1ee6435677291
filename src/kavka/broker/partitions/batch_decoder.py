"""Decodes the batches of internal topics that the broker reads itself, without keeping the event loop.

A batch that is large when it is decompressed is decompressed in the pool, one at a time, since that takes memory; its
records are decoded a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from kavka.io import Disk
from kavka.wire.records.batch import Record
from kavka.wire.records.body import body_of
from kavka.wire.records.header import BatchHeader
from kavka.wire.records.slices import body_if_small, record_slices

_MAX_BODY_BYTES: Final = 128 << 20
"""More than a segment of `__consumer_offsets` or `__transaction_state` holds by default."""
_MAX_RECORDS: Final = 500


class BatchDecoder:
    """Decodes batches for the shards of one coordinator."""

    def __init__(self, disk: Disk) -> None:
        """Use the pool of `disk`."""
        self.disk: Final = disk
        """The disk from which the batches are read."""
        self.lock = asyncio.Lock()
        """Held while a batch is decompressed in the pool."""

    async def decode(self, data: bytes, header: BatchHeader) -> AsyncIterator[list[Record]]:
        """Yield the records of a whole batch, some at a time; other tasks run between two lists.

        Raise CorruptBatch, and BatchTooLarge for a batch that decompresses to more than 128 MiB.
        """
        body = body_if_small(data, header)
        if body is None:
            async with self.lock:
                body = await self.disk.run(body_of, data, header, _MAX_BODY_BYTES)
        is_first = True
        for records in record_slices(body, header, _MAX_RECORDS):
            if not is_first:
                await asyncio.sleep(0)
            is_first = False
            yield records
