"""Feed a slow sink from a queue: pause while it is full, and keep polling, so that the group keeps the partitions."""

import asyncio
import os

from kavka.client import Consumer, ConsumerRecord

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "slow-sink",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "max.poll.records": 10,
}
FULL, LOW = 20, 5


async def write_slowly(queue: asyncio.Queue[ConsumerRecord]) -> None:
    """Take one record after the other: the sink."""
    while True:
        record = await queue.get()
        await asyncio.sleep(0.002)
        print("stored", record.value.decode())
        queue.task_done()


async def main() -> None:
    """Read until the sink is idle and five seconds bring nothing; then commit."""
    queue: asyncio.Queue[ConsumerRecord] = asyncio.Queue()
    sink = asyncio.create_task(write_slowly(queue))
    async with Consumer(READING) as consumer:
        consumer.subscribe(["orders"])
        while True:
            is_idle = not consumer.paused()
            batches = await consumer.poll(5000 if is_idle else 20)
            for batch in batches:
                for record in batch.records():
                    queue.put_nowait(record)
            if queue.qsize() >= FULL:
                consumer.pause(consumer.assignment())
            elif queue.qsize() <= LOW:
                consumer.resume(consumer.paused())
            if not batches and is_idle:
                await queue.join()  # what is committed is stored
                await consumer.commit()
                break
    sink.cancel()


if __name__ == "__main__":
    asyncio.run(main())
