"""Reads the last committed decision of a sink from the end of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from kavka.client.consumer import Consumer
from kavka.ids import TopicPartition
from kavka.spark.decisions import CorruptDecision, Decision, decode
from kavka.spark.errors import ConnectorError
from kavka.spark.patience import reached

_FIRST_WINDOW = 16
"""Offsets from the end: a batch takes four, two records and two markers."""
_GROWTH = 16


async def read_last(connection: Mapping[str, str], topic: str, patience_ms: int) -> Decision | None:
    """Return the last decision, None when there is none; brokers that are away are waited for, `patience_ms`.

    To be called by whoever has fenced all drivers but itself: then no transaction is open, and the end stands still.
    Raise KafkaError, OSError, ConnectorError for a record that is none.
    """
    at = TopicPartition(topic, 0)
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "none"}
    async with AsyncExitStack() as stack:
        consumer = await reached(
            lambda: stack.enter_async_context(Consumer(dict(connection) | settings)), patience_ms
        )
        consumer.assign([at])
        first = (await consumer.beginning_offsets([at]))[at]
        end = (await consumer.end_offsets([at]))[at]
        window = _FIRST_WINDOW
        while True:
            start = max(end - window, first)
            value = await _last_value(consumer, at, start, end)
            if value is not None:
                try:
                    return decode(value)
                except CorruptDecision as error:
                    raise ConnectorError(
                        f"The topic {topic} is not of this sink: {error}"
                    ) from error
            if start == first:
                return None
            window *= _GROWTH


async def _last_value(consumer: Consumer, at: TopicPartition, start: int, end: int) -> bytes | None:
    last: bytes | None = None
    consumer.seek(at, start)
    while await consumer.position(at) < end:
        for batches in await consumer.poll(1000):
            for record in batches.records():
                last = record.value
    return last
