"""`kafka-streams-application-reset` of Kafka 3.9: an application of Kafka Streams begins again on our brokers."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kavka.client.blocking import Admin
from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.word_count import Application, Books

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

_WORDS = 600


def test_an_application_that_was_reset_counts_everything_again(
    any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    at = any_broker.bootstrap
    reset = _Reset(at, fresh_name)
    books = Books(at, fresh_name, 1, seed=7)
    application = Application("3.9", tmp_path, at, fresh_name)
    try:
        application.start(1)
        books.count_more(_WORDS)
        assert "is still active" in str(reset.run("--dry-run", code=1)), "it runs"
        books.finish()
        application.stop()
        # Members of Kafka Streams do not leave: the coordinator still has them.
        planned = reset.run("--dry-run", "--force")
        assert "Dry run displays the actions which will be performed" in planned.out
        assert reset.internal_topics() == _internal(fresh_name)
        done = reset.run("--force")
        assert "Done." in done.out, str(done)
        assert reset.internal_topics() == set()
        assert set(reset.offsets().values()) == {0}
        shutil.rmtree(tmp_path / "state")
        application.start(1)
        counted = _counts(at, f"{fresh_name}-counts", 2 * books.written.total())
        application.stop()
        once = {word: list(range(1, count + 1)) for word, count in books.written.items()}
        assert counted == {word: counts * 2 for word, counts in once.items()}
    finally:
        if application.process.alive():
            application.process.kill()
        books.close()


def _internal(name: str) -> set[str]:
    stores = {f"{name}-{store}-changelog" for store in ("counts", "lengths")}
    return stores | {f"{name}-{step}-repartition" for step in ("words", "by-length")}


class _Reset:
    """Kafka's tool for one application, and what it leaves."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._name = name

    def run(self, *more: str, code: int = 0) -> Finished:
        """Reset the application's input to its beginning."""
        words = ("--bootstrap-server", self._bootstrap, "--application-id", self._name)
        inputs = ("--input-topics", f"{self._name}-lines", "--to-earliest")
        tool = "kafka-streams-application-reset"
        finished = ApacheKafka("3.9").tool(tool, *words, *inputs, *more)
        assert finished.code == code, str(finished)
        return finished

    def internal_topics(self) -> set[str]:
        """Return the topics that Kafka Streams made for itself."""
        with Admin({"bootstrap.servers": self._bootstrap}) as admin:
            listed = admin.list_topics()
        ends = ("-changelog", "-repartition")
        return {t for t in listed if t.startswith(self._name) and t.endswith(ends)}

    def offsets(self) -> dict[object, int]:
        """Return the committed offsets of the input."""
        with Admin({"bootstrap.servers": self._bootstrap}) as admin:
            found = admin.list_group_offsets(self._name)
        return {at: each.offset for at, each in found.items() if at.topic.endswith("-lines")}


def _counts(bootstrap: str, topic: str, expected: int) -> dict[str, list[int]]:
    """Return the committed counts of each word in their order, when there are so many."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-again",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    counted: defaultdict[str, list[int]] = defaultdict(list)
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 90
    seen = 0
    while seen < expected:
        assert time.monotonic() < deadline, f"{seen} of {expected}"
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                count = int.from_bytes(message.value(), "big", signed=True)
                counted[message.key().decode()].append(count)
                seen += 1
    consumer.close()
    return dict(counted)
