"""Delivery of batches in transactions, each with the positions behind its records.

    begin   records of the batch   records of positions   commit

The coordinator's decision makes both visible at once. An aborted batch is sent again unchanged. A collector of the
same name that starts later fences this one (`transactional.id`) before it reads the positions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kavka.client.producer.partitioner import partition_of
from kavka.client.producer.producer import Producer
from kavka.collect.statistics import Statistics
from kavka.core.transactional_producer.errors import AbortableError, FatalError
from kavka.errors import ErrorCode, KafkaError
from kavka.values import field, mutable

log = logging.getLogger(__name__)

_DEFAULTS = {
    "compression.type": "lz4",
    "batch.size": 262_144,
    "linger.ms": 5,
    "acks": "all",
}
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_EXPIRED = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID)
_TIMEOUT_MS = 60_000
_BACKOFF_S = (0.1, 5.0)
_CLOSE_MS = 5_000


class CollectorError(Exception):
    """The collector cannot continue; the message says what to do."""


class CollectorFenced(CollectorError):
    """Another collector of the same name was started after this one."""


class SessionLost(CollectorError):
    """The coordinator aborted a transaction after its timeout, or expired the producer id: start a new session.

    The open transaction is not committed. The reason may also be that another collector was started.
    """


def fenced(name: str) -> CollectorFenced:
    """Return the error of a collector that was fenced by another one."""
    return CollectorFenced(
        f"A collector with the name {name!r} was started after this one and has replaced it. Each collector needs "
        "a --name of its own."
    )


@mutable
class Batch:
    """Records of one transaction."""

    records: dict[tuple[str, bytes], list[tuple[bytes | None, bytes | None]]] = field(factory=dict)
    """Pairs of key and value by topic and key."""
    positions: list[tuple[bytes, bytes | None]] = field(factory=list)
    count: int = 0
    size: int = 0

    def add(self, topic: str, key: bytes, values: list[bytes]) -> None:
        """Add records of one key, in order."""
        pairs = self.records.setdefault((topic, key), [])
        pairs += [(key, value) for value in values]
        self.count += len(values)
        self.size += sum(map(len, values))


class Delivery:
    """The transactional producer of one session of a collector, from start to close."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        name: str,
        statistics: Statistics,
        positions_topic: str | None = None,
    ) -> None:
        """Configure a producer; positions are written to partition 0 of their topic."""
        self._producer = Producer(
            {**_DEFAULTS, **settings, "transactional.id": f"kavka-collect-{name}"}
        )
        self._name = name
        self._positions_topic = positions_topic
        self._statistics = statistics
        self._counts: dict[str, int] = {}
        self._timeout_s = int(settings.get("transaction.timeout.ms", _TIMEOUT_MS)) / 1000
        self._transaction_start_s: float | None = None

    async def start(self) -> None:
        """Connect, and fence an older collector of the name. Raise CollectorError."""
        try:
            await self._producer.start()
            await self._finish(self._producer.init_transactions)
        except (KafkaError, ConnectionError) as error:
            raise self._failure(error) from error

    async def close(self) -> None:
        """Close; an open transaction is aborted."""
        try:
            await self._producer.close(timeout_ms=_CLOSE_MS)
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("producer close failed reason=%s", error)

    async def send(self, batch: Batch) -> None:
        """Send a batch in a transaction, and retry until it is committed. Raise CollectorError."""
        backoff_s = _BACKOFF_S[0]
        while True:
            try:
                self._transaction_start_s = _now_s()
                self._producer.begin_transaction()
                await self._write(batch)
                await self._finish(self._producer.commit_transaction)
                self._count(batch)
                return
            except FatalError as error:
                raise self._failure(error) from error
            except (KafkaError, OSError, TimeoutError) as error:
                await self._abort()
                if not _is_transient(error):
                    raise self._failure(error) from error
                self._statistics.retries += 1
                log.warning(
                    "transaction aborted, retrying records=%d reason=%s", batch.count, error
                )
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, _BACKOFF_S[1])

    def _count(self, batch: Batch) -> None:
        self._statistics.records += batch.count
        self._statistics.bytes += batch.size
        self._statistics.transactions += 1

    async def barrier(self, key: bytes, value: bytes) -> int:
        """Write the barrier record, behind all positions that older collectors have committed; return its offset.

        Raise CollectorError.
        """
        assert self._positions_topic is not None
        self._transaction_start_s = _now_s()
        try:
            async with self._producer.transaction():
                written = await self._producer.send(self._positions_topic, value, key, partition=0)
            return written.offset
        except (KafkaError, OSError, TimeoutError) as error:
            raise self._failure(error) from error

    async def _write(self, batch: Batch) -> None:
        sends = [
            self._producer.send_many(topic, pairs, partition=await self._partition(topic, key))
            for (topic, key), pairs in batch.records.items()
        ]
        if batch.positions:
            assert self._positions_topic is not None
            sends.append(
                self._producer.send_many(self._positions_topic, batch.positions, partition=0)
            )
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _partition(self, topic: str, key: bytes) -> int:
        """Return the partition of a key; partitions added to the topic are used from the next start on."""
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = len(await self._producer.partitions_for(topic))
        return partition_of(key, count)

    async def _abort(self) -> None:
        try:
            if self._producer.can_abort:
                await self._finish(self._producer.abort_transaction)
        except FatalError as error:
            raise self._failure(error) from error

    async def _finish(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Repeat a call after timeouts: without its outcome nothing can be sent."""
        while True:
            try:
                await call()
                return
            except TimeoutError as error:
                log.warning("waiting for the brokers reason=%s", error)

    def _failure(self, error: Exception) -> CollectorError:
        code = error.code if isinstance(error, KafkaError) else None
        if code in _EXPIRED or (code in _FENCED and self._may_have_timed_out()):
            return SessionLost(str(error))
        if code in _FENCED:
            return fenced(self._name)
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            return CollectorError(
                f"A record is larger than the topic allows ({error}): lower --max-event-bytes, or raise the topic's "
                "max.message.bytes."
            )
        return CollectorError(str(error))

    def _may_have_timed_out(self) -> bool:
        """Return whether the transaction was open for so long that the coordinator may have aborted it."""
        return (
            self._transaction_start_s is not None
            and _now_s() - self._transaction_start_s >= self._timeout_s
        )


def _now_s() -> float:
    """Return a time that includes the suspension of the machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_transient(error: Exception) -> bool:
    """Return whether a transaction that was aborted by this error may succeed when it is retried."""
    if isinstance(error, AbortableError):
        cause = error.__cause__
        code = cause.code if isinstance(cause, KafkaError) else error.code
        return (
            code.retriable
            or code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)
            or not isinstance(cause, KafkaError)
        )
    if isinstance(error, KafkaError):
        return error.retriable
    return True


async def run_sessions(
    session: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event
) -> None:
    """Run sessions: a new one after each SessionLost. Raise CollectorError."""
    while True:
        try:
            await session(stop)
            return
        except SessionLost as error:
            log.warning("session lost, starting a new one reason=%s", error)
            await asyncio.sleep(_BACKOFF_S[0])
