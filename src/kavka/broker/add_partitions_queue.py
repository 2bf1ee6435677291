"""Adds partitions that this broker leads to a transaction that it coordinates itself (KIP-890, part 2).

A transaction takes one change at a time, and refuses others until that is replicated. So what comes meanwhile goes
together, as other leaders' partitions do in one AddPartitionsToTxn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from kavka.core.machine import Token
from kavka.core.transaction.events import AddPartitions, AddPartitionsReply, Event
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)

_LEADERS_ADD_PARTITIONS = 2
"""The transaction version in which leaders add partitions."""


class TransactionalProducer(NamedTuple):
    """The producer of the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class AddPartitionsQueue:
    """Partitions to add to transactions, with one request per transaction in flight."""

    def __init__(
        self,
        submit: Callable[[str, Callable[[Token], Event]], Awaitable[Any]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """Add nothing yet.

        `submit` gives an event to the coordinator of a transactional id here. `spawn` runs what asks, and ends it when
        the broker stops.
        """
        self._submit = submit
        self._spawn = spawn
        # Of every transaction that is asked about: what goes into its next question.
        self._pending: dict[
            TransactionalProducer, dict[TopicPartition, asyncio.Future[ErrorCode]]
        ] = {}

    def add(
        self, producer: TransactionalProducer, topic_partition: TopicPartition
    ) -> asyncio.Future[ErrorCode]:
        """Have a partition take part; NONE when it does."""
        waiting = self._pending.get(producer)
        if waiting is None:
            waiting = self._pending[producer] = {}
            self._spawn(self._send_pending(producer))
        if topic_partition not in waiting:
            waiting[topic_partition] = asyncio.get_running_loop().create_future()
        return waiting[topic_partition]

    async def _send_pending(self, producer: TransactionalProducer) -> None:
        """Ask again and again, as long as something has come meanwhile."""
        try:
            while partitions := self._pending[producer]:
                self._pending[producer] = {}
                await self._send(producer, partitions)
        finally:
            _settle(self._pending.pop(producer), ErrorCode.NETWORK_EXCEPTION)  # the broker stops

    async def _send(
        self,
        producer: TransactionalProducer,
        partitions: dict[TopicPartition, asyncio.Future[ErrorCode]],
    ) -> None:
        code = ErrorCode.NETWORK_EXCEPTION
        try:
            reply: AddPartitionsReply | ErrorCode = await self._submit(
                producer.transactional_id,
                lambda token: AddPartitions(
                    token, *producer, tuple(partitions), _LEADERS_ADD_PARTITIONS
                ),
            )
            code = reply if isinstance(reply, ErrorCode) else reply.error_code
        except Exception:
            # A bug must not block later requests.
            log.exception("partitions not added id=%s", producer.transactional_id)
        finally:
            _settle(partitions, code)


def _settle(waiting: dict[TopicPartition, asyncio.Future[ErrorCode]], code: ErrorCode) -> None:
    for future in waiting.values():
        if not future.done():
            future.set_result(code)
