"""An application of confluent-kafka: it sums payments in transactions, exactly once."""

from typing import Any

from confluent_kafka import Consumer, Producer

from kavka.testing import Cluster


def sum_payments(settings: dict[str, Any], group: str, payments: str, sums: str) -> None:
    """Write the sum of the payments that no run has summed yet, and commit both together."""
    reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **reading, "enable.partition.eof": True})
    producer = Producer({**settings, "transactional.id": f"sums of {group}"})
    producer.init_transactions(30)
    consumer.subscribe([payments])
    total = 0
    while (message := consumer.poll(30)) is not None and message.error() is None:
        total += int(message.value())
    producer.begin_transaction()
    producer.produce(sums, str(total).encode())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()


def test_each_payment_is_in_one_sum(kavka_broker: Cluster) -> None:
    payments, sums = kavka_broker.topic("payments"), kavka_broker.topic("sums")
    words = (
        kavka_broker.client_settings(),
        kavka_broker.unique("accounting"),
        payments.name,
        sums.name,
    )
    payments.send_many(["20", "3"])
    sum_payments(*words)
    payments.send("4")
    sum_payments(*words)
    assert sums.values() == [b"23", b"4"]


def test_a_commit_without_an_answer_is_asked_for_again(kavka_broker: Cluster) -> None:
    payments, sums = kavka_broker.topic("payments"), kavka_broker.topic("sums")
    payments.send("20")
    lost = kavka_broker.drop_response("EndTxn", times=1)
    words = kavka_broker.unique("accounting"), payments.name, sums.name
    sum_payments(kavka_broker.client_settings(), *words)
    assert lost.hits == 1
    assert sums.values() == [b"20"]
