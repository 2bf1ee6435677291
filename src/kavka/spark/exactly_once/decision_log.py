"""Reads the last committed decision of a sink from the end of its topic, behind a barrier.

A deposed leader that is not notified yet returns an old end: it answers fetches and offsets from its own
log. So the reader writes a record first, the *barrier*, and uses its offset as the end:

    ... barrier | decision | note | barrier | decision | note | barrier
                  of drivers that are fenced now                of this one: all before it is read

 - The barrier is acknowledged by all replicas in sync, and none of them follows a deposed leader. So it is behind
   all decisions that were made before it was written.
 - A broker that returns the log up to there returns all of it: a leader, deposed or not, returns records below its high
   watermark, which are the same on every replica.
 - It is empty, and only its writer reads it. Written twice, late, or by a driver that was fenced
   meanwhile, it does no harm; so it is in no transaction, and uses no sequence number of the driver's epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from kavka.client.admin import Admin
from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.decisions import (
    BARRIER,
    BARRIER_KEY,
    CorruptDecision,
    Decision,
    decode,
)

log = logging.getLogger(__name__)

_FIRST_WINDOW = 16
"""Offsets before the barrier: a batch takes five, a barrier, two records and two markers."""
_GROWTH = 16
_MAX_ATTEMPTS = 6
_ATTEMPT_MS = 2_000
"""Minimum, unless the whole timeout is less."""
_WRITING = {"acks": "all", "enable.idempotence": "false"}
_READING = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # where a replica has less than the window: it is read from its beginning
}


async def read_last_decision(
    connection: Mapping[str, str], topic: str, timeout_ms: int
) -> Decision | None:
    """Return the last decision, None when there is none; wait `timeout_ms` for brokers that are away.

    To be called by a driver that has fenced all others: no decision of theirs can be behind the barrier then.
    A deposed leader neither acknowledges nor refuses a barrier, so another broker is asked for the leader.
    Raise KafkaError, OSError, ConnectorError for a record that is none.
    """
    tp = TopicPartition(topic, 0)
    attempts = max(min(timeout_ms // _ATTEMPT_MS, _MAX_ATTEMPTS), 1)
    for attempt in range(attempts):
        try:
            async with asyncio.timeout(timeout_ms / attempts / 1000):
                by = await _with_consumer(connection, attempt)
                barrier = await _write_barrier(by, tp)
                return await _read_up_to(barrier, by, tp)
        except TimeoutError as error:
            log.warning("decision not read yet at=%s attempt=%d", tp, attempt)
            reason = error
    raise TimeoutError(
        f"The last decision in {tp} was not read in {timeout_ms} ms: its leader is offline or replaced, or replicas in "
        "sync do not follow it."
    ) from reason


class LoggedDecision(NamedTuple):
    """The last decision in a decision topic."""

    decision: Decision | None
    """The last committed one; a leader that is deposed may show an older one."""
    written_ms: int | None
    """The timestamp of the last record, be it a barrier; None when there is no record."""


async def read_last_with_time(
    connection: Mapping[str, str], topic: str, timeout_ms: int
) -> LoggedDecision:
    """Return what the end of a decision topic shows, and write nothing, unlike `read_last_decision`.

    Raise KafkaError, OSError, CorruptDecision when a record is none of a sink.
    """
    tp = TopicPartition(topic, 0)
    settings = dict(connection) | _READING
    async with asyncio.timeout(timeout_ms / 1000), Consumer(settings) as consumer:
        consumer.assign([tp])
        first = (await consumer.beginning_offsets([tp]))[tp]
        end = (await consumer.end_offsets([tp]))[tp]
        window = _FIRST_WINDOW
        while True:
            start = max(end - window, first)
            seen = await _seen_from(consumer, tp, start, end)
            if seen.decision is not None or start <= first:
                return seen
            window *= _GROWTH


async def _seen_from(
    consumer: Consumer, tp: TopicPartition, start: int, end: int
) -> LoggedDecision:
    decision, written_ms = None, None
    consumer.seek(tp, start)
    while await consumer.position(tp) < end:
        for batches in await consumer.poll(1000):
            for record in batches.records():
                written_ms = record.timestamp
                if (record.key, record.value) != (BARRIER_KEY, BARRIER):
                    decision = decode(record.value or b"")
    return LoggedDecision(decision, written_ms)


async def _with_consumer(connection: Mapping[str, str], attempt: int) -> dict[str, str]:
    """Return settings of a client that asks one broker after the other for the leader, after a first attempt."""
    if attempt == 0:
        return dict(connection)
    async with Admin(connection) as admin:
        brokers = (await admin.describe_cluster()).brokers
    if not brokers:
        return dict(connection)  # the broker has no leader yet
    broker = brokers[attempt % len(brokers)]
    return dict(connection) | {"bootstrap.servers": f"{broker.host}:{broker.port}"}


async def _write_barrier(client: Mapping[str, str], tp: TopicPartition) -> int:
    """Return the offset of a record that all replicas in sync have."""
    producer = Producer(dict(client) | _WRITING)
    await producer.start()
    try:
        written = await producer.send(tp.topic, BARRIER, BARRIER_KEY, partition=tp.partition)
    finally:
        await producer.close(timeout_ms=0)  # one that is given up is not waited for
    return written.offset


async def _read_up_to(
    barrier: int, client: Mapping[str, str], tp: TopicPartition
) -> Decision | None:
    """Return the last decision before an offset, once that is passed."""
    async with Consumer(dict(client) | _READING) as consumer:
        consumer.assign([tp])
        first = (await consumer.beginning_offsets([tp]))[tp]
        window = _FIRST_WINDOW
        while True:
            start = max(barrier - window, first)
            value = await _last_value(consumer, tp, start, barrier)
            if value is not None:
                try:
                    return decode(value)
                except CorruptDecision as error:
                    raise ConnectorError(
                        f"The topic {tp.topic} is not of this sink: {error}"
                    ) from error
            if start <= first:
                return None
            window *= _GROWTH


async def _last_value(
    consumer: Consumer, tp: TopicPartition, start: int, barrier: int
) -> bytes | None:
    last: bytes | None = None
    consumer.seek(tp, start)
    while await consumer.position(tp) <= barrier:
        for batches in await consumer.poll(1000):
            for record in batches.records():
                if record.key != BARRIER_KEY:
                    last = record.value or b""
    return last
