"""Process records, and commit after each poll what was processed: at least once."""

import os

from kavka.client import ConsumerRecord
from kavka.client.blocking import Consumer

READING = {
    "bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


def process(record: ConsumerRecord) -> None:
    """Do the work. A crash in here means that the records since the last commit come again."""
    print(record.partition, record.offset, record.value.decode())


def main() -> None:
    """Read until five seconds bring nothing."""
    with Consumer(READING) as consumer:
        consumer.subscribe(["orders"])
        while batches := consumer.poll(5000):
            for batch in batches:
                for record in batch.records():
                    process(record)
            consumer.commit()


if __name__ == "__main__":
    main()
