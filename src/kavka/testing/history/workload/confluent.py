"""The workload's view of confluent-kafka, which is librdkafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record, Type
from kavka.testing.history.workload.client import ClientFailed, Done, FatalClientError, Rebalanced

_CALL_SECONDS = 30


@contextmanager
def _failures() -> Iterator[None]:
    library = import_module("confluent_kafka")
    try:
        yield
    except library.KafkaException as error:
        kind = FatalClientError if error.args[0].fatal() else ClientFailed
        raise kind(str(error)) from error
    except BufferError as error:
        raise ClientFailed(str(error)) from error
    except SystemError as error:
        # librdkafka reported a fatal error inside of this call, and the library has lost it (2.16, rarely)
        raise FatalClientError(str(error)) from error


class Confluent:
    """Each client has threads of librdkafka's."""

    def __init__(self, bootstrap: str, timeout_seconds: float, config: Mapping[str, str]) -> None:
        """Connect when asked for something. Raise ModuleNotFoundError without the library."""
        self._library: Any = import_module("confluent_kafka")
        self._settings = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            **config,
        }
        self._timeout_ms = int(timeout_seconds * 1000)
        self._logger = logging.getLogger("kavka.testing.history.librdkafka")
        self._logger.setLevel(logging.CRITICAL)  # broken connections are expected

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Create a topic, and wait until its leaders are known."""
        admin_module: Any = import_module("confluent_kafka.admin")
        admin = admin_module.AdminClient(self._settings, logger=self._logger)
        new = admin_module.NewTopic(topic, partitions, replication_factor, config=configs)
        with _failures():
            admin.create_topics([new])[topic].result(_CALL_SECONDS)

    def producer(self, transactional_id: str | None) -> ConfluentProducer:
        """Make a producer; a transactional one is given its epoch."""
        chosen: dict[str, Any] = {
            **self._settings,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "delivery.timeout.ms": self._timeout_ms,
        }
        if transactional_id is not None:
            chosen |= {"transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
            chosen["delivery.timeout.ms"] = 10_000
        producer = self._library.Producer(chosen, logger=self._logger)
        if transactional_id is not None:
            with _failures():
                producer.init_transactions(_CALL_SECONDS)
        return ConfluentProducer(producer, self._library.KafkaError)

    def consumer(self, group: str | None) -> ConfluentConsumer:
        """Make a consumer; librdkafka wants a group even for one that assigns."""
        chosen = {
            **self._settings,
            "group.id": group or "nobody",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": group is None,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
        }
        return ConfluentConsumer(self._library.Consumer(chosen, logger=self._logger), self._library)


class ConfluentProducer:
    """librdkafka's producer; callbacks run in `wait` and `close`."""

    def __init__(self, producer: Any, errors: Any) -> None:
        """Use a producer."""
        self._producer = producer
        self._refused = {errors.MSG_SIZE_TOO_LARGE, errors.TOPIC_AUTHORIZATION_FAILED}
        self._undelivered_errors: dict[TopicPartition, int] = {}

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        """Produce; a full queue refuses at once."""

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                outcome = Type.FAIL if error.code() in self._refused else Type.INFO
                done(outcome, None, str(error))
            else:
                done(Type.OK, self._delivered_offset(topic_partition, message.offset()), None)

        try:
            with _failures():
                self._producer.produce(
                    topic_partition.topic,
                    value.encode(),
                    partition=topic_partition.partition,
                    on_delivery=delivered,
                )
        except ClientFailed as error:
            done(Type.FAIL, None, str(error))
            if isinstance(error, FatalClientError):
                raise

    def _delivered_offset(self, topic_partition: TopicPartition, offset: int | None) -> int | None:
        """Return the offset of the delivery report, if it has one.

        To a repetition a broker may answer that it is written, without the offset: -1. librdkafka counts on from
        there: the other records of that batch get 0, 1, 2 and so on.
        """
        if offset is None or offset < 0:
            self._undelivered_errors[topic_partition] = 0
            return None
        if self._undelivered_errors.get(topic_partition) == offset:
            self._undelivered_errors[topic_partition] = offset + 1
            return None
        self._undelivered_errors.pop(topic_partition, None)
        return offset

    def wait(self, seconds: float) -> None:
        """Serve callbacks for so long."""
        deadline = time.monotonic() + seconds
        while True:
            remaining = deadline - time.monotonic()
            with _failures():
                self._producer.poll(max(remaining, 0))
            if remaining <= 0:
                return

    def begin(self) -> None:
        """Start a transaction."""
        with _failures():
            self._producer.begin_transaction()

    def commit(self) -> None:
        """Commit, patiently where librdkafka says that trying again is right."""
        self._call_with_timeout(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort, patiently, what was written: librdkafka takes it ill when it had no time to add a partition."""
        with _failures():
            self._producer.flush(_CALL_SECONDS)
        self._call_with_timeout(self._producer.abort_transaction)

    def _call_with_timeout(self, call: Any) -> None:
        library: Any = import_module("confluent_kafka")
        deadline = time.monotonic() + 3 * _CALL_SECONDS
        while True:
            try:
                with _failures():
                    call(_CALL_SECONDS)
                return
            except FatalClientError:
                raise
            except ClientFailed as error:
                cause = error.__cause__
                assert isinstance(cause, library.KafkaException)
                if not cause.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        """Flush; what is left after that is purged, and reported so."""
        try:
            with _failures():
                self._producer.flush(3 * _CALL_SECONDS)
        finally:
            with _failures():
                self._producer.purge()
            self._producer.poll(1)


class ConfluentConsumer:
    """librdkafka's consumer."""

    def __init__(self, consumer: Any, library: Any) -> None:
        """Use a consumer."""
        self._consumer = consumer
        self._library = library
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        """Assign partitions with positions as numbers: librdkafka's assign ignores positions.

        Where it had to ask for the beginning first, a response that comes after the next assignment (from a leader that
        was paused, say) makes it ask again half a second later and go back there, in the middle of reading (2.16). The
        topic is the workload's own: it begins at 0.
        """
        for topic_partition in new:  # it has one from the last time that it was assigned
            self._positions.pop(topic_partition, None)
        start = {
            topic_partition: self._positions.get(topic_partition, 0)
            for topic_partition in partitions
        }
        with _failures():
            self._consumer.assign(
                [
                    self._library.TopicPartition(*topic_partition, offset)
                    for topic_partition, offset in start.items()
                ]
            )

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        """Join."""

        def assigned(_: Any, partitions: Any) -> None:
            rebalanced((), [TopicPartition(p.topic, p.partition) for p in partitions])

        def revoked(_: Any, partitions: Any) -> None:
            rebalanced([TopicPartition(p.topic, p.partition) for p in partitions], ())

        with _failures():
            self._consumer.subscribe(
                [topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked
            )

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Seek, by a new assignment of the same partitions: librdkafka's seek is of no effect before a first fetch."""
        self._positions[topic_partition] = offset
        self.assign([TopicPartition(p.topic, p.partition) for p in self._consumer.assignment()], [])

    def poll(self, seconds: float) -> list[Record]:
        """Consume; events that are no records say nothing about positions."""
        with _failures():
            messages = self._consumer.consume(500, seconds)
        records = [
            Record(TopicPartition(m.topic(), m.partition()), m.offset(), m.value().decode())
            for m in messages
            if m.error() is None
        ]
        for record in records:
            self._positions[record.partition] = record.offset + 1
        return records

    def commit(self) -> None:
        """Commit what was returned."""
        with _failures():
            self._consumer.commit(asynchronous=False)

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        """Read until librdkafka says that this is the end."""
        deadline = time.monotonic() + seconds
        assigned = self._library.TopicPartition(*topic_partition, self._library.OFFSET_BEGINNING)
        with _failures():
            start, end = self._consumer.get_watermark_offsets(assigned, timeout=_CALL_SECONDS)
            self._consumer.assign([assigned])
            records: list[Record] = []
            while time.monotonic() < deadline:
                for message in self._consumer.consume(1000, 0.1):
                    if message.error() is None:
                        records.append(
                            Record(topic_partition, message.offset(), message.value().decode())
                        )
                    elif message.error().code() == self._library.KafkaError._PARTITION_EOF:
                        return start, max(end, message.offset()), records
        raise ClientFailed(f"{topic_partition} was not read to its end {end} in time")

    def close(self) -> None:
        """Close."""
        with _failures():
            self._consumer.close()
