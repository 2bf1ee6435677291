"""Stop on SIGTERM and Ctrl-C after the record that is being processed: commit, leave the group, end."""

import asyncio
import os
import signal

from kavka.client import Consumer, ConsumerRecord

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "graceful",
    "auto.offset.reset": "earliest",
}


async def process(record: ConsumerRecord) -> None:
    """Do the work, which must not be cut in two."""
    await asyncio.sleep(0.001)
    print("done", record.offset, flush=True)


async def main() -> None:
    """Read until a signal comes."""
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with Consumer(READING) as consumer:
        consumer.subscribe(["orders"])
        while not stop.is_set():
            for batch in await consumer.poll(500):
                for record in batch.records():
                    await process(record)
            await consumer.commit()
    print("left the group", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
