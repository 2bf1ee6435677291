"""The application: it reads orders and writes an invoice for each."""

from collections.abc import Callable

from kavka.client.blocking import Consumer, Producer


def invoice(order: bytes) -> bytes:
    """Return the invoice of an order."""
    return b"invoice of " + order


def run(servers: str, is_running: Callable[[], bool]) -> None:
    """Write invoices until `is_running` says no; commit an order after its invoice is acknowledged."""
    settings = {"bootstrap.servers": servers}
    reading = settings | {
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with Producer(settings) as producer, Consumer(reading) as consumer:
        consumer.subscribe(["orders"])
        while is_running():
            for batch in consumer.poll(200):
                for record in batch.records():
                    producer.append("invoices", invoice(record.value), record.key)
            producer.flush()
            consumer.commit()
