"""A consumer at a broker behind injected faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from kavka.client import Consumer, Producer, TopicPartition
from kavka.client.consumer import ConsumerRecord, RebalanceListener
from kavka.client.consumer.batches import FetchedBatches
from support.faulty_broker import FaultyBroker

AT = TopicPartition("t", 0)


def fill(
    broker: FaultyBroker, settings: dict[str, Any], count: int, topic: str = "t", /, **more: Any
) -> None:
    """Write records with the key `k` and the values 0, 1, ...; `more` are settings of the producer."""

    async def main() -> None:
        async with Producer(settings | more, network=broker) as producer:
            await producer.send_many(topic, [(b"k", b"%d" % i) for i in range(count)])

    asyncio.run(main())


def run(
    broker: FaultyBroker,
    settings: dict[str, Any],
    work: Callable[[Consumer], Awaitable[Any]],
    **more: Any,
) -> Any:
    """Return what `work(consumer)` returns with a consumer at the broker."""

    async def main() -> Any:
        given = settings | {"auto.offset.reset": "earliest"} | more
        async with Consumer(given, network=broker) as consumer:
            return await work(consumer)

    return asyncio.run(main())


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until there are so many records."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        for batches in await consumer.poll(1000):
            found += batches.records()
    return found


async def poll_until(consumer: Consumer, condition: Callable[[], Any]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await consumer.poll(20)


def offsets(batches: Iterable[FetchedBatches]) -> list[int]:
    """Return the offsets of the records of a poll."""
    return [record.offset for one in batches for record in one.records()]


class RecordingListener(RebalanceListener):
    """Keeps the calls that it gets."""

    def __init__(self) -> None:
        self.story: list[Any] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep what was assigned."""
        self.story.append(("assigned", [str(topic_partition) for topic_partition in partitions]))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep what was revoked."""
        self.story.append(("revoked", [str(topic_partition) for topic_partition in partitions]))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep what was lost."""
        self.story.append(("lost", [str(topic_partition) for topic_partition in partitions]))
