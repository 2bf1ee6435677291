"""A workload whose library does not return: it ends with its name, not never."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record, Type
from kavka.testing.history.workload import Load, Settings
from kavka.testing.history.workload import load as module
from kavka.testing.history.workload.client import ClientFailed, Done, Rebalanced

SETTINGS = Settings("nowhere:9092", "confluent", partitions=1, producers=1, timeout_seconds=0.2)


class Library:
    """A library in memory. It has no record to give: `poll` waits, that of the thread `held` until `release`."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.held = ""
        self.release = threading.Event()

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Take the topic as it is."""

    def producer(self, transactional_id: str | None) -> Library:
        return self

    def consumer(self, group: str | None) -> Library:
        return self

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        self.values.append(value)
        done(Type.OK, len(self.values) - 1, None)

    def wait(self, seconds: float) -> None:
        self.release.wait(seconds)

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        """Read nothing in particular."""

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        """Get no partition."""

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Stay."""

    def poll(self, seconds: float) -> list[Record]:
        is_held = threading.current_thread().name == self.held
        self.release.wait(30 if is_held else min(seconds, 0.05))
        return []

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        found = [Record(topic_partition, offset, value) for offset, value in enumerate(self.values)]
        return 0, len(found), found

    def begin(self) -> None:
        """Begin nothing."""

    def commit(self) -> None:
        """Commit nothing."""

    def abort(self) -> None:
        """Abort nothing."""

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.3)
    made = Library()
    yield made
    made.release.set()


def test_a_load_is_judged_when_all_have_stopped(library: Library) -> None:
    with Load(SETTINGS, client=library) as load:
        load.wait_for(10)
        assert load.finish().passed


def test_a_client_that_hangs_is_named_and_waited_for_once(library: Library) -> None:
    library.held = "member-1"
    began = time.monotonic()
    with Load(SETTINGS, client=library) as load:
        load.wait_for(10)
        with pytest.raises(ClientFailed, match=r"^confluent does not return in 0\.5 s: member-1$"):
            load.finish()
    assert time.monotonic() - began < 10
