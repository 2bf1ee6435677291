"""The demo's topics: made at the start, read while it runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kavka.client.admin import Admin, NewTopic
from kavka.client.dead_letters import dead_letter_of
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.spark.offsets import OffsetRange, Offsets
from kavka.spark.options import Subscribe, parse_source
from kavka.spark.range_reader import read_range
from kavka.spark.topics import BrokerTopics

PARTITIONS = 2
_UNLIMITED_RETENTION = {"retention.ms": "-1"}
"""Lines carry the time of the site, which may be years ago, and retention goes by the time of the records."""


def create_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Make the topics. Raise KafkaError, also when only one of them is refused, and OSError."""

    async def create() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            results = await admin.create_topics(
                [NewTopic(name, PARTITIONS, 1, configs=_UNLIMITED_RETENTION) for name in names]
            )
        for result in results.values():
            if isinstance(result, KafkaError):
                raise result

    asyncio.run(create())


class TopicReader:
    """Reads what has been added to topics since the last call; committed records alone."""

    def __init__(self, bootstrap: str) -> None:
        """Connect."""
        self._client = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
        self._topics = BrokerTopics(self._client)
        self._seen: dict[str, Offsets] = {}

    def close(self) -> None:
        """Close the connections."""
        self._topics.close()

    def length(self, topic: str) -> int:
        """Return the number of records by the offsets of the partitions; it is that in a topic without transactions."""
        partitions = self._topics.partitions(Subscribe((topic,)))
        first, last = self._topics.earliest(partitions), self._topics.latest(partitions)
        return sum(last[partition] - first[partition] for partition in partitions)

    def origins(self, topic: str) -> list[tuple[int, int]]:
        """Return from which partition and offset each dead letter came, by its headers. Raise ValueError without."""
        ends = self._topics.latest(self._topics.partitions(Subscribe((topic,))))
        return [
            _origin(headers)
            for partition, end in ends.items()
            for headers in self._column("headers", partition, 0, end)
        ]

    def new_values(self, topic: str) -> list[bytes]:
        """Return the values of the records that came since the last call, the first time all."""
        partitions = self._topics.partitions(Subscribe((topic,)))
        seen = self._seen.get(topic, dict.fromkeys(partitions, 0))
        ends = self._topics.latest(partitions)
        self._seen[topic] = ends
        return [
            value
            for partition in partitions
            for value in self._column("value", partition, seen[partition], ends[partition])
        ]

    def _column(self, name: str, partition: TopicPartition, start: int, end: int) -> list[Any]:
        """Return a column of a range of offsets."""
        if start >= end:
            return []
        client = {f"kafka.{setting}": value for setting, value in self._client.items()}
        given = {"subscribe": partition.topic, "includeHeaders": str(name == "headers").lower()}
        options = parse_source({**client, **given}, streaming=False)
        batches = read_range(options, OffsetRange(*partition, start, end))
        return [value for batch in batches for value in batch.column(name).to_pylist()]


def _origin(headers: list[dict[str, Any]] | None) -> tuple[int, int]:
    letter = dead_letter_of((header["key"], header["value"]) for header in headers or [])
    if letter.partition is None or letter.offset is None:
        raise ValueError("a dead letter does not say from which partition and offset it came")
    return letter.partition, letter.offset


def alert_text(value: bytes) -> str:
    """Return a record of the alerts topic as a line for people."""
    alert = json.loads(value)
    minute = datetime.fromisoformat(alert["minute"]).strftime("%d %b %H:%M")
    return f"{minute}  {alert['kind']:8} {alert['visitor']:16} {alert['reason']}"
