"""Each order gets its invoice, also when a leader is killed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import invoices
import pytest

from kavka.testing import Cluster

BOTH = {b"invoice of tea", b"invoice of cake"}


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


@pytest.mark.kavka_cluster(brokers=1)
def test_each_order_gets_an_invoice(kavka_cluster: Cluster) -> None:
    kavka_cluster.topic("orders", exact=True).send_many(["tea", "cake"])
    with application(kavka_cluster.bootstrap_servers):
        found = kavka_cluster.existing_topic("invoices").wait_for(2)
    assert [record.value for record in found] == [b"invoice of tea", b"invoice of cake"]


@pytest.mark.kavka_cluster(settings={"min.insync.replicas": "2"})
def test_the_leader_of_the_orders_may_die(kavka_cluster: Cluster) -> None:
    orders = kavka_cluster.topic("orders", exact=True)
    invoices = kavka_cluster.topic("invoices", exact=True)
    with application(kavka_cluster.bootstrap_servers):
        orders.send("tea")
        invoices.wait_for(1)
        kavka_cluster.kill(kavka_cluster.leader(orders))
        orders.send("cake")
        invoices.wait_for(
            lambda records: {record.value for record in records} == BOTH, timeout_s=30
        )


def test_an_invoice_is_written_once_although_its_answer_was_lost(kavka_broker: Cluster) -> None:
    kavka_broker.topic("orders", exact=True).send("tea")
    invoices = kavka_broker.topic("invoices", exact=True)
    lost = kavka_broker.drop_response("Produce", times=1, topic=invoices)
    with application(kavka_broker.bootstrap_servers):
        lost.wait_until_hit()
        kavka_broker.existing_topic("orders").wait_until_read("billing")
    assert invoices.values() == [b"invoice of tea"]
