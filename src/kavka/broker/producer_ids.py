"""Producer ids, given out from blocks of a thousand that the registry accounts for (KIP-730).

A block that a crashed broker had not used up is lost; an id is never given out twice.
"""

from __future__ import annotations

import asyncio

from kavka.core.znodes import ZnodeError
from kavka.ids import BrokerId, ProducerId
from kavka.registry.interface import Registry, RegistryRefused
from kavka.wire.stored.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock

BLOCK_SIZE = 1000


class ProducerIds:
    """This broker's supply."""

    def __init__(self, broker_id: BrokerId, registry: Registry) -> None:
        """Take no block before the first id is asked for."""
        self._broker_id = broker_id
        self._registry = registry
        self._next = 0
        self._last = -1
        self._turn = asyncio.Lock()

    async def next(self) -> ProducerId:
        """Return an id that no producer has had. Raise ConnectionError without a registry."""
        async with self._turn:
            if self._next > self._last:
                await self._take_block()
            given = self._next
            self._next += 1
            return ProducerId(given)

    async def _take_block(self) -> None:
        while True:
            data, stat = await self._registry.get(PRODUCER_ID_BLOCK)
            start = ProducerIdBlock.decode(data).end + 1 if data else 0
            block = ProducerIdBlock(self._broker_id, start, start + BLOCK_SIZE - 1)
            try:
                await self._registry.set(PRODUCER_ID_BLOCK, block.encode(), stat.version)
            except RegistryRefused as refused:
                if refused.error is ZnodeError.BAD_VERSION:
                    continue  # another broker took this block
                raise
            self._next, self._last = block.start, block.end
            return
