"""Both brokers, as their users would start them; ours allows two-phase commit, which its Spark sink then uses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from apache.lifecycle import compile_ours, launch_apache, wait_until_serving
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import SHIPPED_TOOL, ApacheKafka
from kavka_compat.artifacts import cache_directory, jars, java
from kavka_compat.brokers import Broker
from kavka_compat.ours import start_kavka
from kavka_compat.word_count import compile_java

SIDES = ("apache", "kavka")
_LIBRARIES = "streams-4.1"
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


def java_program(source: Path) -> list[str]:
    """Return the command that runs a Java program with Apache Kafka's clients; compile it when its text is new."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = cache_directory(_LIBRARIES) / f"classes-{digest}"
    if not (classes / f"{source.stem}.class").exists():
        compile_java(_LIBRARIES, classes, source)
    path = ":".join(map(str, [classes, *jars(_LIBRARIES)]))
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java(), *SHIPPED_TOOL, logging, "-cp", path, source.stem]


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
