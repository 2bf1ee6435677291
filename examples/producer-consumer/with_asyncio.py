"""Write ten orders and read them at the same time, on one event loop."""

import asyncio
import os

from kavka.client import Consumer, Producer

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}
TOPIC = "orders-asyncio"
COUNT = 10


async def write() -> None:
    """Send each record and wait for its acknowledgement."""
    async with Producer(SERVERS) as producer:
        for number in range(COUNT):
            await producer.send(
                TOPIC, value=b"order %d" % number, key=b"customer %d" % (number % 3)
            )


async def read() -> list[str]:
    """Return the values of the first records."""
    values: list[str] = []
    reading = SERVERS | {"group.id": "async-printer", "auto.offset.reset": "earliest"}
    async with Consumer(reading) as consumer:
        consumer.subscribe([TOPIC])
        async for record in consumer:
            values.append(record.value.decode())
            if len(values) == COUNT:
                break
    return values


async def main() -> None:
    """Run both."""
    _, values = await asyncio.gather(write(), read())
    for value in sorted(values):
        print(value)


if __name__ == "__main__":
    asyncio.run(main())
