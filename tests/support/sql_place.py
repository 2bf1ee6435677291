"""A broker with topics to query, and rows of a statement as Python has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.sql.session import Session


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
        values: Sequence[bytes | None],
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> None:
        with blocking.Producer(self.settings) as producer:
            pairs = [(None, value) for value in values]
            producer.send_many(topic, pairs, partition=partition, timestamp_ms=timestamp_ms)


Open = Callable[..., Session]
"""Opens a session: arguments are `formats` for `FormatOptions`, `settings`, and those of `SessionOptions`."""


def rows(session: Session, statement: str) -> list[dict[str, Any]]:
    """Run a statement and return its rows, by column."""
    found = session.execute(statement)
    assert found is not None, "the statement has no rows"
    return [
        json.loads(line) for batch in found.json_lines() for line in batch.column(0).to_pylist()
    ]


def values(session: Session, statement: str) -> list[Any]:
    """Run a statement and return its first column."""
    return [next(iter(row.values())) for row in rows(session, statement)]
