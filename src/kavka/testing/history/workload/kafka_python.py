"""The workload's view of kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record, Type
from kavka.testing.history.workload.client import (
    ClientFailed,
    Done,
    FatalClientError,
    Rebalanced,
    scan_to_end,
)

_NAMES = {
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
}
"""Settings that kafka-python calls by other names than librdkafka."""


@contextmanager
def _failures() -> Iterator[None]:
    errors: Any = import_module("kafka.errors")
    try:
        yield
    except (errors.ProducerFencedError, errors.OutOfOrderSequenceNumberError) as error:
        raise FatalClientError(repr(error)) from error
    except (errors.KafkaError, OSError) as error:
        raise ClientFailed(repr(error)) from error


class KafkaPython:
    """kafka-python, from 3.0 on."""

    def __init__(self, bootstrap: str, timeout_seconds: float, config: Mapping[str, str]) -> None:
        """Connect when asked for something. Raise ModuleNotFoundError without the library."""
        self._library: Any = import_module("kafka")
        self._settings = {
            "bootstrap_servers": bootstrap.split(","),
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 200,
            **{_NAMES.get(name, name.replace(".", "_")): text for name, text in config.items()},
        }
        self._timeout_ms = int(timeout_seconds * 1000)

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Create a topic."""
        admin_module: Any = import_module("kafka.admin")
        new = admin_module.NewTopic(
            topic, partitions, replication_factor, topic_configs=configs or None
        )
        with _failures():
            admin = self._library.KafkaAdminClient(**self._settings)
            try:
                admin.create_topics([new])
            finally:
                admin.close()

    def producer(self, transactional_id: str | None) -> KafkaPythonProducer:
        """Make a producer; a transactional one is given its epoch."""
        chosen: dict[str, Any] = {
            **self._settings,
            "enable_idempotence": True,
            "acks": "all",
            "linger_ms": 2,
            "delivery_timeout_ms": self._timeout_ms,
        }
        if transactional_id is not None:
            chosen |= {"transactional_id": transactional_id, "transaction_timeout_ms": 10_000}
        with _failures():
            producer = self._library.KafkaProducer(**chosen)
            if transactional_id is not None:
                producer.init_transactions()
        return KafkaPythonProducer(producer)

    def consumer(self, group: str | None) -> KafkaPythonConsumer:
        """Make a consumer."""
        chosen = {
            **self._settings,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 500,
        }
        with _failures():
            return KafkaPythonConsumer(self._library.KafkaConsumer(**chosen), self._library)


class KafkaPythonProducer:
    """kafka-python's producer; callbacks run in its thread."""

    def __init__(self, producer: Any) -> None:
        """Use a producer."""
        self._producer = producer
        self._refused: Any = import_module("kafka.errors").MessageSizeTooLargeError

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        """Send; what is raised was not taken."""
        try:
            with _failures():
                future = self._producer.send(
                    topic_partition.topic, value.encode(), partition=topic_partition.partition
                )
        except ClientFailed as error:
            done(Type.FAIL, None, str(error))
            if isinstance(error, FatalClientError):
                raise
            return

        def failed(error: Exception) -> None:
            outcome = Type.FAIL if isinstance(error, self._refused) else Type.INFO
            done(outcome, None, repr(error))

        future.add_callback(
            lambda sent: done(Type.OK, None if sent.offset < 0 else sent.offset, None)
        )
        future.add_errback(failed)

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def begin(self) -> None:
        """Start a transaction."""
        with _failures():
            self._producer.begin_transaction()

    def commit(self) -> None:
        """Commit."""
        with _failures():
            self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort what was written."""
        with _failures():
            self._producer.flush()
            self._producer.abort_transaction()

    def close(self) -> None:
        """Flush and close."""
        with _failures():
            self._producer.close()


class KafkaPythonConsumer:
    """kafka-python's consumer."""

    def __init__(self, consumer: Any, library: Any) -> None:
        """Use a consumer."""
        self._consumer = consumer
        self._library = library

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        """Assign partitions; new ones are sent to the beginning."""
        with _failures():
            self._consumer.assign(
                [self._library.TopicPartition(*topic_partition) for topic_partition in partitions]
            )
            if new:
                places = [self._library.TopicPartition(*topic_partition) for topic_partition in new]
                self._consumer.seek_to_beginning(*places)

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        """Join."""

        class Listener(self._library.ConsumerRebalanceListener):  # type: ignore[name-defined,misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                rebalanced([TopicPartition(p.topic, p.partition) for p in revoked], ())

            def on_partitions_assigned(self, assigned: Any) -> None:
                rebalanced((), [TopicPartition(p.topic, p.partition) for p in assigned])

        with _failures():
            self._consumer.subscribe([topic], listener=Listener())

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Seek."""
        self._consumer.seek(self._library.TopicPartition(*topic_partition), offset)

    def poll(self, seconds: float) -> list[Record]:
        """Poll."""
        with _failures():
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        return [
            Record(TopicPartition(r.topic, r.partition), r.offset, r.value.decode())
            for rows in polled.values()
            for r in rows
        ]

    def commit(self) -> None:
        """Commit all positions."""
        with _failures():
            self._consumer.commit()

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        """Read until the position is at the end."""
        with _failures():
            partition = self._library.TopicPartition(*topic_partition)
            return scan_to_end(self._consumer, partition, self.poll, seconds)

    def close(self) -> None:
        """Close."""
        with _failures():
            self._consumer.close(autocommit=False)
