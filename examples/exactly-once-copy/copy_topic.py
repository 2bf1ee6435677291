"""Double the numbers of one topic into another, each exactly once, until everything that is there has been read."""

import asyncio
import os

from kavka.client import Consumer, ExactlyOnce, FetchedBatches, Producer, ProducerRecord

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}
READING = SERVERS | {
    "group.id": "doubling",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
}
WRITING = SERVERS | {"transactional.id": "doubling-1"}


def double(batch: FetchedBatches) -> list[ProducerRecord]:
    """Return what is to be written for one partition's records of a poll."""
    return [
        ProducerRecord("doubled", b"%d" % (2 * int(record.value)), record.key)
        for record in batch.records()
    ]


async def has_read_all(consumer: Consumer) -> bool:
    """Return whether the group has its partitions and is at their ends."""
    partitions = consumer.assignment()
    ends = await consumer.end_offsets(partitions)
    return bool(partitions) and all([await consumer.position(p) >= end for p, end in ends.items()])


async def main() -> None:
    """Run steps, each of which is one transaction."""
    async with Producer(WRITING) as producer, Consumer(READING) as consumer:
        consumer.subscribe(["numbers"])
        await producer.init_transactions()
        copy = ExactlyOnce(consumer, producer, double)
        batches = 0
        while not await has_read_all(consumer):
            batches += await copy.step()
        print("committed", batches, "batches")


if __name__ == "__main__":
    asyncio.run(main())
