"""Producer ids, allocated from blocks of a thousand that the registry accounts for (KIP-730).

    this broker rules, or is alone     takes its blocks from the registry
    another broker rules               asks it (AllocateProducerIds); from the registry when it cannot be asked

Both ways lead through the version of one znode, so an id is never allocated twice. A block that a crashed broker had
not used up is lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.control.controller import Controller
from kavka.core.znodes import ZnodeError
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import ProducerId
from kavka.registry.interface import RegistryRefused
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kavka.wire.stored.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock

log = logging.getLogger(__name__)

BLOCK_SIZE = 1000
_MAX_PRODUCER_ID: Final = (1 << 63) - 1
_ADVICE: Final = (
    f"set block_end in {PRODUCER_ID_BLOCK} of the registry above all ids in use and far below 2^63"
)
_SHOWN_BYTES: Final = 200
_REQUEST_TIMEOUT_MS: Final = 2_000
"""Milliseconds to wait for the controller: producers wait meanwhile, and the registry can allocate as well."""


class NoProducerId(Exception):
    """The registry has no further producer id: its block cannot be read, or all ids were allocated."""


class ProducerIdManager:
    """The producer ids of this broker, allocated in blocks."""

    def __init__(self, context: BrokerContext, controller: Controller) -> None:
        """Take no block before the first id is asked for."""
        self._context = context
        self._controller = controller
        self._next = 0
        self._last = -1
        self._lock = asyncio.Lock()

    def take(self) -> ProducerId | None:
        """Return an id of the block that no producer has had; None when the block is used up, see `next`."""
        if self._next > self._last:
            return None
        taken = self._next
        self._next += 1
        return ProducerId(taken)

    async def next(self) -> ProducerId:
        """Return an id that no producer has had, from a further block if need be.

        Raise ConnectionError without a registry, NoProducerId when it has none left.
        """
        async with self._lock:
            taken = self.take()
            while taken is None:
                block = await self._allocate_next_block()
                self._next, self._last = block.start, block.end
                taken = self.take()
            return taken

    async def _allocate_next_block(self) -> ProducerIdBlock:
        if not self._controller.is_active and len(self._context.metadata.brokers) > 1:
            block = await self._request_block()
            if block is not None:
                return block
        return await self.allocate_block(self._context.broker_id)

    async def _request_block(self) -> ProducerIdBlock | None:
        """Ask the controller for a block; None when it gives none."""
        context = self._context
        request = AllocateProducerIdsRequest(
            broker_id=context.broker_id, broker_epoch=context.broker_epoch
        )
        try:
            response: AllocateProducerIdsResponse = await self._controller.send(
                request, _REQUEST_TIMEOUT_MS
            )
        except (OSError, KafkaError, CorruptFrame) as error:
            log.info("producer ids not given by the controller reason=%s", error)
            return None
        if response.error_code != ErrorCode.NONE or response.producer_id_len <= 0:
            code = ErrorCode.of(response.error_code)
            log.info("producer ids not given by the controller error=%s", code.name)
            return None
        start = response.producer_id_start
        if not 0 <= start <= _MAX_PRODUCER_ID - response.producer_id_len + 1:
            log.warning("producer ids of the controller are out of range start=%d", start)
            return None
        return ProducerIdBlock(context.broker_id, start, start + response.producer_id_len - 1)

    async def allocate_block(self, broker_id: int) -> ProducerIdBlock:
        """Take the next block for a broker from the registry.

        Raise ConnectionError without one, NoProducerId when it has none left.
        """
        registry = self._context.registry
        while True:
            data, stat = await registry.get(PRODUCER_ID_BLOCK)
            start = _last_id(data) + 1
            if start > _MAX_PRODUCER_ID - BLOCK_SIZE + 1:
                raise NoProducerId(f"all producer ids were given out: {_shown(data)}; {_ADVICE}")
            block = ProducerIdBlock(broker_id, start, start + BLOCK_SIZE - 1)
            try:
                await registry.set(PRODUCER_ID_BLOCK, block.encode(), stat.version)
            except RegistryRefused as refused:
                if refused.error is ZnodeError.BAD_VERSION:
                    continue  # another broker took this block
                raise
            return block


def _last_id(data: bytes) -> int:
    """Return the last id that was allocated, -1 for none, from the content of the znode. Raise NoProducerId."""
    if not data:
        return -1
    try:
        return ProducerIdBlock.decode(data).end
    except (KeyError, TypeError, ValueError) as error:
        raise NoProducerId(f"the block cannot be read: {_shown(data)}; {_ADVICE}") from error


def _shown(data: bytes) -> str:
    return data[:_SHOWN_BYTES].decode(errors="backslashreplace")
