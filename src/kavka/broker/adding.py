"""Adds partitions that this broker leads to a transaction that it coordinates itself (KIP-890, part 2).

A transaction takes one change at a time, and refuses others until that is replicated. So what comes meanwhile goes
together, as other leaders' partitions do in one AddPartitionsToTxn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.core.transaction.events import AddPartitions, AddPartitionsReply
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

_LEADERS_ADD = 2
"""The transaction version of clients whose leaders add."""


class Adder(NamedTuple):
    """Whose transaction it is."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Additions:
    """What is to be added, with one question about each transaction under way."""

    def __init__(
        self, broker: Broker, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        """Add nothing yet; `spawn` runs what asks, and ends it when the broker stops."""
        self._broker = broker
        self._spawn = spawn
        # Of every transaction that is asked about: what goes into its next question.
        self._next: dict[Adder, dict[TopicPartition, asyncio.Future[ErrorCode]]] = {}

    def add(self, who: Adder, where: TopicPartition) -> asyncio.Future[ErrorCode]:
        """Have a partition take part; NONE when it does."""
        waiting = self._next.get(who)
        if waiting is None:
            waiting = self._next[who] = {}
            self._spawn(self._ask_all(who))
        if where not in waiting:
            waiting[where] = asyncio.get_running_loop().create_future()
        return waiting[where]

    async def _ask_all(self, who: Adder) -> None:
        """Ask again and again, as long as something has come meanwhile."""
        try:
            while taken := self._next[who]:
                self._next[who] = {}
                await self._ask(who, taken)
        finally:
            _settle(self._next.pop(who), ErrorCode.NETWORK_EXCEPTION)  # the broker stops

    async def _ask(
        self, who: Adder, taken: dict[TopicPartition, asyncio.Future[ErrorCode]]
    ) -> None:
        code = ErrorCode.NETWORK_EXCEPTION
        try:
            reply: AddPartitionsReply | ErrorCode = await self._broker.transactions.ask(
                who.transactional_id,
                lambda token: AddPartitions(token, *who, tuple(taken), _LEADERS_ADD),
            )
            code = reply if isinstance(reply, ErrorCode) else reply.error_code
        except Exception:
            # A fault of ours must not keep those waiting who come next.
            log.exception("partitions not added id=%s", who.transactional_id)
        finally:
            _settle(taken, code)


def _settle(waiting: dict[TopicPartition, asyncio.Future[ErrorCode]], code: ErrorCode) -> None:
    for future in waiting.values():
        if not future.done():
            future.set_result(code)
