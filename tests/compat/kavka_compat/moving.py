"""librdkafka's clients of a workload that are moved to other settings while they work, as a rolling restart of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from kavka.ids import TopicPartition
from kavka.testing.history.operations import Record
from kavka.testing.history.workload.client import (
    Done,
    FatalClientError,
    Rebalanced,
    WorkloadConsumer,
    WorkloadProducer,
)
from kavka.testing.history.workload.confluent import Confluent


class MovingClient:
    """Clients of the settings that hold when they are made.

    A producer whose settings have changed ends in order, all that it took is sent, and its worker makes another one.
    Members of a group come and go anyway: each new one has the new settings.
    """

    def __init__(
        self,
        group: str,
        producing: Mapping[str, str],
        consuming: Mapping[str, str],
        timeout_seconds: float,
    ) -> None:
        """Take librdkafka's settings of producers and of consumers, `bootstrap.servers` among them.

        All members are of one group, whatever the workload calls it.
        """
        self._group = group
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._open: dict[int, int] = {}
        """The number of open clients of each generation of settings."""
        self.generation = 0
        self._choose(producing, consuming)

    def move(self, producing: Mapping[str, str], consuming: Mapping[str, str]) -> None:
        """Let all clients move."""
        with self._lock:
            self._choose(producing, consuming)
            self.generation += 1

    def left_behind(self) -> int:
        """Return how many clients with earlier settings are still open."""
        with self._lock:
            return sum(n for made, n in self._open.items() if made != self.generation)

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> None:
        """Do nothing: the topic is there."""

    def producer(self, transactional_id: str | None) -> WorkloadProducer:
        """Make a producer."""
        with self._lock:
            made, factory = self.generation, self._producing
        producer = factory.producer(transactional_id)
        return _Producer(producer, lambda: made == self.generation, self._opened(made))

    def consumer(self, group: str | None) -> WorkloadConsumer:
        """Make a consumer."""
        with self._lock:
            made, factory = self.generation, self._consuming
        consumer = factory.consumer(None if group is None else self._group)
        return _Consumer(consumer, self._opened(made))

    def _choose(self, producing: Mapping[str, str], consuming: Mapping[str, str]) -> None:
        self._producing = Confluent("", self._timeout_seconds, producing)
        self._consuming = Confluent("", self._timeout_seconds, consuming)

    def _opened(self, generation: int) -> Callable[[], None]:
        def count(more: int) -> None:
            with self._lock:
                self._open[generation] = self._open.get(generation, 0) + more

        count(1)
        return lambda: count(-1)


class _Producer:
    """A producer that asks for its end once the settings have changed."""

    def __init__(
        self,
        producer: WorkloadProducer,
        is_current: Callable[[], bool],
        closed: Callable[[], None],
    ) -> None:
        self._producer = producer
        self._is_current = is_current
        self._closed = closed

    def send(self, topic_partition: TopicPartition, value: str, done: Done) -> None:
        self._producer.send(topic_partition, value, done)

    def wait(self, seconds: float) -> None:
        self._producer.wait(seconds)
        if not self._is_current():
            raise FatalClientError("it moves to other settings")

    def begin(self) -> None:
        self._producer.begin()

    def commit(self) -> None:
        self._producer.commit()

    def abort(self) -> None:
        self._producer.abort()

    def close(self) -> None:
        try:
            self._producer.close()
        finally:
            self._closed()


class _Consumer:
    """A consumer that is counted until it is closed."""

    def __init__(self, consumer: WorkloadConsumer, closed: Callable[[], None]) -> None:
        self._consumer = consumer
        self._closed = closed

    def assign(self, partitions: Sequence[TopicPartition], new: Sequence[TopicPartition]) -> None:
        self._consumer.assign(partitions, new)

    def subscribe(self, topic: str, rebalanced: Rebalanced) -> None:
        self._consumer.subscribe(topic, rebalanced)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(topic_partition, offset)

    def poll(self, seconds: float) -> list[Record]:
        return self._consumer.poll(seconds)

    def commit(self) -> None:
        self._consumer.commit()

    def scan(
        self, topic_partition: TopicPartition, seconds: float
    ) -> tuple[int, int, list[Record]]:
        return self._consumer.scan(topic_partition, seconds)

    def close(self) -> None:
        try:
            self._consumer.close()
        finally:
            self._closed()
