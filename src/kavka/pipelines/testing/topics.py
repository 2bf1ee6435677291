"""Topics of a test: records are fed and read by the project's own client; and slices of anybody's topics."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

from kavka.client import Consumer
from kavka.client.admin import Admin, NewTopic
from kavka.client.producer import Producer
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.pipelines.testing.records import Record, to_bytes

_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Recorded slices are older than a topic's retention."""
_AT_ONCE = 1000
_READ_TIMEOUT_S = 60.0


async def create_topics(servers: str, topics: Mapping[str, int]) -> None:
    """Create topics with so many partitions; those that exist are left as they are. Raise KafkaError."""
    async with Admin({"bootstrap.servers": servers}) as admin:
        new = [NewTopic(name, partitions, configs=_KEPT) for name, partitions in topics.items()]
        for result in (await admin.create_topics(new)).values():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result


async def feed(servers: str, records: Iterable[Record]) -> int:
    """Write records into their topics, in order, and return how many. Raise KafkaError, TypeError, ValueError."""
    count = 0
    async with Producer({"bootstrap.servers": servers}) as producer:
        for record in records:
            producer.append(
                record.topic,
                to_bytes(record.value, "value"),
                to_bytes(record.key, "key"),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            count += 1
            if count % _AT_ONCE == 0:
                await producer.flush()
        await producer.flush()
    return count


async def read_records(
    settings: Mapping[str, str],
    topic: str,
    *,
    partitions: Sequence[int] = (),
    start_ms: int | None = None,
    end_ms: int | None = None,
    idle_timeout_s: float = _READ_TIMEOUT_S,
) -> AsyncGenerator[Record, None]:
    """Yield the committed records that a topic has now, by partitions; all of them, or those of a range of time.

    The end of the range does not belong to it. Raise KafkaError when there is no such topic, OSError, TimeoutError.
    """
    async with Admin(settings) as admin:
        [described] = (await admin.describe_topics([topic])).values()
    if isinstance(described, KafkaError):
        raise described
    numbers = partitions or range(len(described.partitions))
    async with Consumer({**settings, "isolation.level": "read_committed"}) as consumer:
        for number in numbers:
            at = TopicPartition(topic, number)
            consumer.assign([at])
            end = (await consumer.end_offsets([at]))[at]
            if not await _seek(consumer, at, start_ms):
                continue
            deadline = time.monotonic() + idle_timeout_s
            while await consumer.position(at) < end:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{at} could not be read: nothing came in {idle_timeout_s:g} s"
                    )
                for batch in await consumer.poll(timeout_ms=500):
                    deadline = time.monotonic() + idle_timeout_s
                    for record in batch.records():
                        if record.offset < end and (end_ms is None or record.timestamp < end_ms):
                            yield Record(
                                record.value,
                                record.key,
                                tuple(record.headers),
                                record.timestamp,
                                number,
                                record.offset,
                                topic,
                            )


async def _seek(consumer: Consumer, at: TopicPartition, start_ms: int | None) -> bool:
    """Seek to the first record; return whether there is one."""
    if start_ms is None:
        consumer.seek_to_beginning([at])
        return True
    entry = (await consumer.offsets_for_times({at: start_ms}))[at]
    if entry is None:
        return False
    consumer.seek(at, entry.offset)
    return True
