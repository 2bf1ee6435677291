"""Topics of a run, which are deleted with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from confluent_kafka.admin import AdminClient, NewTopic

from apache.workloads import PARTITIONS
from kavka_compat.brokers import Broker

_NO_SETTINGS: Mapping[str, str] = {}
_names = count()


@contextmanager
def run_topic(
    broker: Broker,
    name: str,
    partitions: int = PARTITIONS,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> Iterator[str]:
    """Create a topic for one run, named after `name`, and delete it afterwards."""
    topic = f"{name}-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})
    new = NewTopic(topic, partitions, 1, config=dict(settings))
    admin.create_topics([new])[topic].result(60)
    try:
        yield topic
    finally:
        admin.delete_topics([topic])[topic].result(60)
