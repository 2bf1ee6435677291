"""Collectors as processes, and what is in their topics, read by librdkafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running


@contextmanager
def collector(
    output: Path,
    kind: str,
    bootstrap: str,
    topic: str,
    *arguments: object,
    user: int | None = None,
) -> Iterator[Running]:
    """Run a collector for the body of a `with`, as a user; it is killed at the end if it still runs."""
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    command = kavka_command("collect", kind, *map(str, arguments), *at)
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    process = Running(command, output)
    try:
        yield process
    finally:
        if process.alive():
            process.kill()


def collect_once(
    output: Path, kind: str, bootstrap: str, topic: str, *arguments: object
) -> tuple[int, str]:
    """Run a collector to its end; return its exit code and what it has printed."""
    with collector(output, kind, bootstrap, topic, *arguments, "--once") as process:
        code = process._process.wait(60)
        return code, process.text()


class Reader:
    """A consumer of librdkafka that reads a topic from its beginning, committed records only."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "allow.auto.create.topics": True,
            }
        )
        metadata = self._consumer.list_topics(topic, timeout=30)
        partitions = metadata.topics[topic].partitions or {0: None}
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self.keys: list[bytes | None] = []
        self.records: list[dict[str, Any]] = []

    def read_until(self, count: int, seconds: float = 60) -> list[dict[str, Any]]:
        """Return all records so far, at least `count` unless the time is over."""
        waited = 0.0
        while len(self.records) < count and waited < seconds:
            waited += self._poll(0.2)
        return self.records

    def read_rest(self) -> list[dict[str, Any]]:
        """Return all records when nothing more comes for a second."""
        quiet = 0.0
        while quiet < 1:
            idle = self._poll(0.2)
            quiet = quiet + idle if idle else 0.0
        return self.records

    def _poll(self, seconds: float) -> float:
        """Take records that are there; return the time that was waited in vain."""
        messages = self._consumer.consume(10_000, seconds)
        for message in messages:
            assert message.error() is None, message.error()
            self.keys.append(message.key())
            self.records.append(json.loads(message.value()))
        return 0.0 if messages else seconds

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def reader(bootstrap: str, topic: str) -> Iterator[Reader]:
    """Read a topic in the body of a `with`."""
    consumer = Reader(bootstrap, topic)
    try:
        yield consumer
    finally:
        consumer.close()


def messages(records: list[dict[str, Any]]) -> list[str]:
    """Return the events of records."""
    return [record["message"] for record in records]
