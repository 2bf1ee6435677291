"""The clients of a hosted cluster: they look at topics and groups for the test, over the brokers' own listener."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kavka.client import TopicPartition
from kavka.client.admin.topics import NewTopic
from kavka.client.blocking import Admin, Consumer, Producer
from kavka.testing.secured import Secured

Result = TypeVar("Result")

_TIMEOUT_MS = 15_000
_WRITING = {
    "linger.ms": 0,
    "max.block.ms": _TIMEOUT_MS,
    "request.timeout.ms": 10_000,
    "delivery.timeout.ms": _TIMEOUT_MS,
}

Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Partition, offset, timestamp in ms, key, value and headers of a record."""


class HostedClients:
    """An administrator, producers and consumers, each made when it is first needed."""

    def __init__(self, settings: Mapping[str, Any], secured: Secured | None) -> None:
        """Connect with `settings`, later; `secured` is None for a cluster of others."""
        self._settings = dict(settings)
        self._secured = secured
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._consumers: dict[bool, Consumer] = {}
        self._transactions: dict[int, Producer] = {}

    @property
    def admin(self) -> Admin:
        """The administrator."""
        if self._admin is None:
            self._admin = Admin({"default.api.timeout.ms": _TIMEOUT_MS, **self._settings})
        return self._admin

    def secure(self) -> None:
        """Make the users that the cluster was started with."""
        assert self._secured is not None
        self._secured.make_users(lambda: self.admin)

    def close(self) -> None:
        """Close them all; what they wait for is lost."""
        self.forget_topics()
        for client in (*self._transactions.values(), self._admin):
            _close(client)
        self._transactions.clear()
        self._admin = None

    def forget_topics(self) -> None:
        """Close those that ask for metadata of topics, which would create again what is deleted."""
        for client in (*self._consumers.values(), self._producer):
            _close(client)
        self._consumers.clear()
        self._producer = None

    # -- topics

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic. Raise KafkaError."""
        topic = NewTopic(name, partitions, replication_factor, dict(configs))
        _unwrapped(self.admin.create_topics([topic])[name])

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; one that is not there is deleted."""
        self.forget_topics()
        self.admin.delete_topics(list(names))

    def topics(self) -> list[str]:
        """Return the names of the topics that are not internal."""
        return list(self.admin.list_topics())

    def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions. Raise KafkaError."""
        return len(_unwrapped(self.admin.describe_topics([topic])[topic]).partitions)

    def send(self, topic: str, rows: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """Write records, acks=all; return partition and offset of each."""
        if self._producer is None:
            self._producer = Producer({**self._settings, **_WRITING})
        return _append(self._producer, topic, rows)

    def end_offsets(self, topic: str, *, committed: bool) -> dict[int, int]:
        """Return the end of each partition: the last stable offset, or the high watermark."""
        consumer = self._consumer(committed)
        keys = [TopicPartition(topic, index) for index in range(self.partitions(topic))]
        return {key.partition: end for key, end in consumer.end_offsets(keys).items()}

    def records(self, topic: str, *, committed: bool) -> list[Row]:
        """Return all records of a topic, by partition and offset."""
        consumer = self._consumer(committed)
        keys = [TopicPartition(topic, index) for index in range(self.partitions(topic))]
        ends = {key: end for key, end in consumer.end_offsets(keys).items() if end}
        consumer.assign(list(ends))
        consumer.seek_to_beginning(list(ends))
        rows: list[Row] = []
        try:
            while any(consumer.position(key) < end for key, end in ends.items()):
                for batches in consumer.poll(200):
                    rows += [
                        (r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                        for r in batches.records()
                        if r.offset < ends[TopicPartition(topic, r.partition)]
                    ]
        finally:
            consumer.assign([])
        return sorted(rows, key=lambda row: row[:2])

    def _consumer(self, committed: bool) -> Consumer:
        if committed not in self._consumers:
            level = "read_committed" if committed else "read_uncommitted"
            self._consumers[committed] = Consumer(
                {
                    **self._settings,
                    "isolation.level": level,
                    "default.api.timeout.ms": _TIMEOUT_MS,
                    "enable.auto.commit": False,
                    "allow.auto.create.topics": False,
                    # What comes after a fetch waits for its end, on the same connection.
                    "fetch.max.wait.ms": 5,
                }
            )
        return self._consumers[committed]

    # -- transactions

    def begin(self, number: int, transactional_id: str) -> None:
        """Begin transaction `number`."""
        producer = Producer({**self._settings, **_WRITING, "transactional.id": transactional_id})
        self._transactions[number] = producer
        producer.init_transactions()
        producer.begin_transaction()

    def send_in(
        self, number: int, topic: str, rows: Iterable[Mapping[str, Any]]
    ) -> list[tuple[int, int]]:
        """Write records in a transaction."""
        return _append(self._transactions[number], topic, rows)

    def end(self, number: int, *, commit: bool) -> None:
        """Commit or abort, and close."""
        producer = self._transactions.pop(number)
        try:
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        finally:
            producer.close()

    def abort_all(self) -> None:
        """Abort what a test has left open."""
        for number in list(self._transactions):
            self.end(number, commit=False)

    # -- groups

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the offset that a group has committed for each partition of a topic."""
        found = self.admin.list_group_offsets(group)
        return {key.partition: value.offset for key, value in found.items() if key.topic == topic}

    def group(self, group: str) -> tuple[str, int]:
        """Return the state of a group and the number of its members."""
        found = _unwrapped(self.admin.describe_groups([group])[group])
        return str(getattr(found.state, "value", found.state)), len(found.members)

    def delete_groups(self) -> None:
        """Delete all groups without members."""
        names = [listing.group_id for listing in self.admin.list_groups()]
        if names:
            self.admin.delete_groups(names)

    def allow(self, user: str, operations: Sequence[str], resource: str, name: str) -> None:
        """Add ACLs: a user may do something with a resource; `name` may end with a star."""
        assert self._secured is not None
        for result in self.admin.create_acls(
            self._secured.acls(user, operations, resource, name)
        ).values():
            _unwrapped(result)


def _close(client: Any) -> None:
    if client is not None:
        with contextlib.suppress(Exception):  # the brokers may be dead: nothing is lost by it
            client.close()


def _append(
    producer: Producer, topic: str, rows: Iterable[Mapping[str, Any]]
) -> list[tuple[int, int]]:
    futures = [producer.append(topic, want_future=True, **row) for row in rows]
    producer.flush()
    done = [future.result() for future in futures if future is not None]
    return [(place.partition, place.offset) for place in done]


def _unwrapped(result: Result | Exception) -> Result:
    """Return a result of an admin, or raise the error that is in its place."""
    if isinstance(result, Exception):
        raise result
    return result
