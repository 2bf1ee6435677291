"""Each order gets its invoice, also when a leader is killed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import invoices
import pytest

from kavka.client.blocking import Consumer, Producer
from kavka.testing.local_cluster import LocalCluster


@contextmanager
def application(servers: str) -> Iterator[None]:
    """Run the application in a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=invoices.run, args=(servers, lambda: not stop.is_set()))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_invoices(servers: str, count: int) -> list[bytes]:
    """Return the first invoices; each call reads from the beginning, since it commits nothing."""
    reading = {
        "bootstrap.servers": servers,
        "group.id": "test",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    found: list[bytes] = []
    with Consumer(reading) as consumer:
        consumer.subscribe(["invoices"])
        while len(found) < count:
            for batch in consumer.poll(200):
                found += [record.value for record in batch.records()]
    return found


@pytest.mark.kavka_cluster(brokers=1)
def test_each_order_gets_an_invoice(kavka_cluster: LocalCluster) -> None:
    servers = kavka_cluster.bootstrap_servers
    with Producer({"bootstrap.servers": servers}) as producer:
        producer.send("orders", b"tea")
        producer.send("orders", b"cake")
        with application(servers):
            assert read_invoices(servers, 2) == [b"invoice of tea", b"invoice of cake"]


@pytest.mark.kavka_cluster(settings={"min.insync.replicas": "2"})
def test_the_leader_of_the_orders_may_die(kavka_cluster: LocalCluster) -> None:
    servers = kavka_cluster.bootstrap_servers
    with Producer({"bootstrap.servers": servers}) as producer, application(servers):
        producer.send("orders", b"tea")
        assert read_invoices(servers, 1) == [b"invoice of tea"]  # three brokers have made the topic
        kavka_cluster.kill(kavka_cluster.leader("orders"))
        producer.send("orders", b"cake")
        found = read_invoices(servers, 2)
    assert set(found) == {b"invoice of tea", b"invoice of cake"}
