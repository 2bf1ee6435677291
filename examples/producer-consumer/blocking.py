"""Write ten orders and read them, with threads that wait."""

import os

from kavka.client.blocking import Consumer, Producer

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}
TOPIC = "orders-blocking"
COUNT = 10


def write() -> None:
    """Append without waiting for each record, then wait for all of them."""
    with Producer(SERVERS) as producer:
        for number in range(COUNT):
            producer.append(TOPIC, value=b"order %d" % number, key=b"customer %d" % (number % 3))
        producer.flush()


def read() -> list[str]:
    """Return the values of the first records, and commit how far the group has read."""
    values: list[str] = []
    reading = SERVERS | {"group.id": "printer", "auto.offset.reset": "earliest"}
    with Consumer(reading) as consumer:
        consumer.subscribe([TOPIC])
        while len(values) < COUNT:
            for batch in consumer.poll(1000):
                values += [record.value.decode() for record in batch.records()]
        consumer.commit()
    return values


if __name__ == "__main__":
    write()
    for value in sorted(read()):
        print(value)
