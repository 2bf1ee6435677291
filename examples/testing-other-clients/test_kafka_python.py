"""An application of kafka-python that logs in by TLS and SCRAM, and reads a topic to its end."""

from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import TopicAuthorizationFailedError

from kavka.testing import Cluster


def read_all(settings: dict[str, Any], topic: str) -> list[bytes]:
    """Return the values of a topic."""
    consumer = KafkaConsumer(
        topic,
        group_id="reports",
        auto_offset_reset="earliest",
        consumer_timeout_ms=1000,
        **settings,
    )
    try:
        return [message.value for message in consumer]
    finally:
        consumer.close()


secured = pytest.mark.kavka_cluster(
    brokers=1, users={"reports": "a-secret", "guest": "no-secret"}, tls=True, authorization=True
)


@secured
def test_reports_may_read_and_guests_may_not(kavka_cluster: Cluster) -> None:
    sales = kavka_cluster.topic("sales")
    sales.send_many(["1", "2"])
    kavka_cluster.allow("reports", ["Read", "Describe"], topic=sales)
    for user in ("reports", "guest"):
        kavka_cluster.allow(user, "Read", group="reports")
    kavka_cluster.allow("guest", "Describe", topic=sales)

    reports = kavka_cluster.client_settings("kafka-python", user="reports")
    assert read_all(reports, sales.name) == [b"1", b"2"]
    guest = kavka_cluster.client_settings("kafka-python", user="guest")
    with pytest.raises(TopicAuthorizationFailedError):
        read_all(guest, sales.name)
