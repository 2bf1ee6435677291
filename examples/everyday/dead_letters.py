"""Put records that cannot be read or processed into a topic of their own, with the reason in headers, and go on."""

import json
import os

from kavka.client import ConsumerRecord, RecordDeserializationError
from kavka.client.blocking import Consumer, Producer
from kavka.client.dead_letters import DeadLetter, dead_letter_headers

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}
READING = SERVERS | {
    "group.id": "orders-to-shop",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "value.deserializer": json.loads,
}


def put_aside(producer: Producer, record: ConsumerRecord, error: BaseException, stage: str) -> None:
    """Write a record, as it was, to the topic of dead letters. `kavka pipelines redrive` sends it back."""
    letter = DeadLetter(
        record.topic, record.partition, record.offset, record.timestamp,
        stage, type(error).__name__, str(error),
    )  # fmt: skip
    value = record.value if isinstance(record.value, bytes) else json.dumps(record.value).encode()
    headers = dead_letter_headers(letter, record.headers)
    producer.append("orders-dead", value, record.key, headers=headers)


def process(order: dict[str, int]) -> None:
    """Do the work."""
    print("order of", order["number"])


def main() -> None:
    """Read until five seconds bring nothing; commit when the dead letters of a poll are written."""
    with Consumer(READING) as consumer, Producer(SERVERS) as producer:
        consumer.subscribe(["orders-mixed"])
        while batches := consumer.poll(5000):
            for batch in batches:
                try:
                    records = batch.records()  # ends before a record that cannot be read
                except RecordDeserializationError as error:
                    put_aside(producer, error.record, error.__cause__ or error, "decode")
                    consumer.seek(error.topic_partition, error.offset + 1)
                    continue
                for record in records:
                    try:
                        process(record.value)
                    except (KeyError, TypeError) as error:
                        put_aside(producer, record, error, "process")
            producer.flush()
            consumer.commit()


if __name__ == "__main__":
    main()
