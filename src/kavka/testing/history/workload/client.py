"""The workload's interface to Kafka clients. Adapters hide the client's own exceptions and types."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record, Type

Done = Callable[[Type, int | None, str | None], None]
"""Called once with the end of a send: the outcome, the offset if it is known, the error."""
Rebalanced = Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], None]
"""Called, inside of polls, with the revoked and the assigned partitions."""


class ClientFailed(Exception):
    """A call of a client did not succeed; whether it took effect is unknown unless the call says otherwise."""


class FatalClientError(ClientFailed):
    """A fatal error: close the client and make another."""


class WorkloadProducer(Protocol):
    """An idempotent producer with acks=all, used by one thread."""

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        """Send without waiting. `done` is called later, in any thread."""

    def wait(self, seconds: float) -> None:
        """Wait; callbacks may run."""

    def begin(self) -> None:
        """Start a transaction. Raise ClientFailed."""

    def commit(self) -> None:
        """Commit. Raise ClientFailed when the outcome is unknown and an abort must follow, FatalClientError."""

    def abort(self) -> None:
        """Abort. Raise ClientFailed, FatalClientError."""

    def close(self) -> None:
        """Wait until all is sent or given up."""


class WorkloadConsumer(Protocol):
    """A consumer that reads committed records from the beginning, used by one thread."""

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        """Read these; `new` ones from their beginning, the others where they were."""

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        """Join the group."""

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at an offset."""

    def poll(self, seconds: float) -> list[Record]:
        """Read on. Raise ClientFailed when nothing was returned."""

    def commit(self) -> None:
        """Commit what was read for the group. Raise ClientFailed."""

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        """Return start and end of a partition and all that is visible. Raise ClientFailed."""

    def close(self) -> None:
        """Leave the group."""


class WorkloadClient(Protocol):
    """A client library."""

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Create a topic. Raise ClientFailed."""

    def producer(self, transactional_id: str | None) -> WorkloadProducer:
        """Connect a producer. Raise ClientFailed."""

    def consumer(self, group: str | None) -> WorkloadConsumer:
        """Connect a consumer. Raise ClientFailed."""


def scan_to_end(
    consumer: Any, topic_partition: Any, poll: Callable[[float], list[Record]], seconds: float
) -> tuple[int, int, list[Record]]:
    """Return start and end of a partition and its records, by a consumer that knows its position.

    `topic_partition` is of the library's own type. Raise ClientFailed after `seconds`, and the library's errors.
    """
    deadline = time.monotonic() + seconds
    start: int = consumer.beginning_offsets([topic_partition])[topic_partition]
    end: int = consumer.end_offsets([topic_partition])[topic_partition]
    consumer.assign([topic_partition])
    consumer.seek(topic_partition, start)
    records: list[Record] = []
    while consumer.position(topic_partition) < end:
        if time.monotonic() > deadline:
            raise ClientFailed(f"{topic_partition} was not read to its end {end} in time")
        records += poll(1)
    return start, end, records
