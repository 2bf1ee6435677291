"""The workload's view of `kavka.client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from kavka.client import FatalError, NewTopic, RecordMetadata
from kavka.client.blocking import Admin, Consumer, Producer
from kavka.client.consumer.group.rebalance_listener import RebalanceListener
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record, Type
from kavka.testing.history.workload.client import (
    ClientFailed,
    Done,
    FatalClientError,
    Rebalanced,
    scan_to_end,
)

_REFUSED = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Answers that no other attempt of the same send can have had a better one than."""
_TRANSACTIONAL = {
    "transaction.timeout.ms": 10_000,
    "delivery.timeout.ms": 10_000,
    "request.timeout.ms": 5_000,
    "max.block.ms": 10_000,
}


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except FatalError as error:
        raise FatalClientError(str(error)) from error
    except (KafkaError, TimeoutError, OSError) as error:
        raise ClientFailed(f"{type(error).__name__}: {error}") from error


class KavkaClient:
    """`kavka.client.blocking`, which runs each client in a thread of its own."""

    def __init__(self, bootstrap: str, timeout_seconds: float, config: Mapping[str, str]) -> None:
        """Connect when asked for something."""
        own = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}
        self._settings = {**own, **config}
        self._timeout_ms = int(timeout_seconds * 1000)

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Create a topic."""
        with _failures(), Admin(self._settings) as admin:
            new = NewTopic(topic, partitions, replication_factor, configs)
            (outcome,) = admin.create_topics([new]).values()
            if isinstance(outcome, KafkaError):
                raise outcome

    def producer(self, transactional_id: str | None) -> KavkaProducer:
        """Connect a producer."""
        chosen: dict[str, Any] = {"linger.ms": 2, "delivery.timeout.ms": self._timeout_ms}
        if transactional_id is not None:
            chosen |= _TRANSACTIONAL | {"transactional.id": transactional_id}
        with _failures():
            producer = Producer({**self._settings, **chosen})
            if transactional_id is not None:
                try:
                    producer.init_transactions()
                except BaseException:
                    producer.close(timeout_ms=1000)
                    raise
        return KavkaProducer(producer, self._timeout_ms / 1000)

    def consumer(self, group: str | None) -> KavkaConsumer:
        """Connect a consumer."""
        chosen: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "default.api.timeout.ms": 10_000,
        }
        if group is not None:
            chosen |= {"group.id": group, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        with _failures():
            return KavkaConsumer(Consumer({**self._settings, **chosen}))


class KavkaProducer:
    """Our producer."""

    def __init__(self, producer: Producer, timeout_seconds: float) -> None:
        """Use a connected one; a commit or an abort is waited for as long as `timeout_seconds`."""
        self._producer = producer
        self._timeout_seconds = timeout_seconds

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        """Append, and check the future when it is done."""
        future = self._producer.append(
            topic_partition.topic,
            value.encode(),
            partition=topic_partition.partition,
            want_future=True,
        )
        assert future is not None
        future.add_done_callback(_completion_callback(done))

    def wait(self, seconds: float) -> None:
        """Sleep: callbacks run in the client's thread."""
        time.sleep(seconds)

    def begin(self) -> None:
        """Start a transaction."""
        with _failures():
            self._producer.begin_transaction()

    def commit(self) -> None:
        """Commit; what is not decided in time is asked for again."""
        self._call_with_timeout(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort."""
        self._call_with_timeout(self._producer.abort_transaction)

    def _call_with_timeout(self, call: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                with _failures():
                    call()
                return
            except ClientFailed as error:
                if not isinstance(error.__cause__, TimeoutError):
                    raise
                if time.monotonic() > deadline:
                    raise FatalClientError(str(error)) from error

    def close(self) -> None:
        """Send waiting records; failures were reported to the senders."""
        with _failures():
            self._producer.close()


def _completion_callback(done: Done) -> Callable[[Future[RecordMetadata]], None]:
    def report(future: Future[RecordMetadata]) -> None:
        error = future.exception()
        if error is None:
            offset = future.result().offset
            done(Type.OK, None if offset < 0 else offset, None)
            return
        was_refused = isinstance(error, KafkaError) and error.code in _REFUSED
        done(Type.FAIL if was_refused else Type.INFO, None, f"{type(error).__name__}: {error}")

    return report


class _Listener(RebalanceListener):
    def __init__(self, rebalanced: Rebalanced) -> None:
        self._rebalanced = rebalanced

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._rebalanced(partitions, ())

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._rebalanced((), partitions)


class KavkaConsumer:
    """Our consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Use a connected one."""
        self._consumer = consumer

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        """Assign partitions; new ones start at the beginning by their reset policy, without a committed offset."""
        self._consumer.assign(partitions)

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        """Join."""
        self._consumer.subscribe([topic], listener=_Listener(rebalanced))

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Seek."""
        self._consumer.seek(topic_partition, offset)

    def poll(self, seconds: float) -> list[Record]:
        """Poll."""
        with _failures():
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        return [
            Record(batches.topic_partition, record.offset, record.value.decode())
            for batches in polled
            for record in batches.records()
        ]

    def commit(self) -> None:
        """Commit all positions."""
        with _failures():
            self._consumer.commit(timeout_ms=5000)

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        """Read until the position is at the end."""
        with _failures():
            return scan_to_end(self._consumer, topic_partition, self.poll, seconds)

    def close(self) -> None:
        """Close."""
        with _failures():
            self._consumer.close()
