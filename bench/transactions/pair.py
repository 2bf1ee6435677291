"""Both brokers, as their users would start them; ours allows two-phase commit, which its Spark sink then uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from apache.lifecycle import compile_ours, launch_apache, wait_until_serving
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import start_kavka

SIDES = ("apache", "kavka")
_names = count()


@contextmanager
def run_pair(directory: Path, kafka: ApacheKafka) -> Iterator[dict[str, Broker]]:
    """Run one broker of each side."""
    compile_ours()
    with ExitStack() as stack:
        apache = launch_apache(kafka)(directory / "apache")
        stack.callback(apache.process.stop)
        kavka = start_kavka(directory / "kavka", {"transaction.two.phase.commit.enable": "true"})
        stack.callback(kavka.process.stop)
        wait_until_serving(apache)
        yield {"apache": apache, "kavka": kavka}


@contextmanager
def topic_at(broker: Broker, name: str, partitions: int) -> Iterator[str]:
    """Make a topic of its own for one run, named after `name`, and delete it afterwards."""
    topic = f"{name}-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    try:
        yield topic
    finally:
        admin.delete_topics([topic])[topic].result(60)
