"""One broker for all tests of a file, and sessions with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.sql.session import Session, SessionOptions
from kavka.sql.value_formats import FormatOptions
from kavka.testing.local_cluster import LocalCluster


class Place:
    """A broker, and what fills its topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.settings = {"bootstrap.servers": bootstrap}

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        made = NewTopic(
            topic, partitions, 1, configs={k.replace("__", "."): v for k, v in configs.items()}
        )
        with blocking.Admin(self.settings) as admin:
            admin.create_topics([made])

    def write(
        self,
        topic: str,
        values: list[bytes | None],
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> None:
        with blocking.Producer(self.settings) as producer:
            pairs = [(None, value) for value in values]
            producer.send_many(topic, pairs, partition=partition, timestamp_ms=timestamp_ms)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with LocalCluster(tmp_path_factory.mktemp("broker"), brokers=1) as cluster:
        yield Place(cluster.bootstrap_servers)


Open = Callable[..., Session]


@pytest.fixture
def open_session(place: Place) -> Iterator[Open]:
    """Open a session: arguments are those of `SessionOptions`, `formats` those of `FormatOptions`."""
    with ExitStack() as stack:

        def open_(
            formats: dict[str, Any] | None = None,
            settings: dict[str, Any] | None = None,
            **options: Any,
        ) -> Session:
            chosen = SessionOptions(
                place.settings | (settings or {}), FormatOptions(**(formats or {})), **options
            )
            return stack.enter_context(Session(chosen))

        yield open_
