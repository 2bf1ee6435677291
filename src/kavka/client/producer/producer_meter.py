"""The sensors of a producer, by topic: per batch when it is sent, repeated, and done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

from kavka.client.metrics.names import Named, counted, spread
from kavka.client.metrics.network import ClientMeter
from kavka.client.metrics.sensors import Sensor, Sum, Window, ratio
from kavka.client.producer.batch import ProducerBatch
from kavka.io import Clock
from kavka.wire.apis import ApiKey


class _Topic:
    """Records of a topic; those of the producer are the sum over its topics."""

    __slots__ = ("bytes", "encoded", "failed", "repeated", "written")

    def __init__(self, window: Window) -> None:
        self.written = Sensor(window)
        self.failed = Sensor(window)
        self.repeated = Sensor(window)
        self.bytes = Sensor(window)
        self.encoded = Sensor(window)


def _records(topics: Sequence[_Topic], now_ms: int) -> Named:
    yield from counted("record-send", Sum([one.written for one in topics], now_ms))
    yield from counted("record-error", Sum([one.failed for one in topics], now_ms))
    yield from counted("record-retry", Sum([one.repeated for one in topics], now_ms))
    encoded = Sum([one.encoded for one in topics], now_ms).window_sum
    bare = Sum([one.bytes for one in topics], now_ms).window_sum
    yield "compression-rate-avg", ratio(encoded, bare)


class ProducerMeter(ClientMeter):
    """The sensors of a producer."""

    kind = "producer"
    group = "producer-metrics"

    def __init__(self, client_id: str, clock: Clock, window: Window) -> None:
        """Begin with zeros."""
        super().__init__(client_id, clock, window)
        self._topics: dict[str, _Topic] = {}
        self._queue_time = Sensor(window)
        self._records_in_request = Sensor(window)
        self._exhausted = Sensor(window)
        self.buffer_bytes: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Return `buffer.memory` and how much of it is free."""
        self.in_flight: Callable[[], int] = lambda: 0

    @classmethod
    def example(cls) -> Self:
        """Return a meter with a topic."""
        made = super().example()
        made._topic("topic")
        return made

    def _topic(self, name: str) -> _Topic:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Topic(self.window)
        return found

    def sending(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Count the batches of a request."""
        count = 0
        for batch in batches:
            count += batch.count
            topic = self._topic(batch.topic_partition.topic)
            topic.bytes.add(batch.size, now_ms)
            topic.encoded.add(batch.encoded_bytes, now_ms)
            self._queue_time.add(now_ms - batch.created_ms, now_ms)
        self._records_in_request.add(count, now_ms)

    def repeating(self, batch: ProducerBatch) -> None:
        """Count a batch that goes back into the queue."""
        topic = self._topic(batch.topic_partition.topic)
        topic.repeated.add(batch.count, self.clock.tick_ms())

    def done(self, batch: ProducerBatch, is_written: bool) -> None:
        """Count a batch whose fate is known."""
        topic = self._topic(batch.topic_partition.topic)
        (topic.written if is_written else topic.failed).add(batch.count, self.clock.tick_ms())

    def exhausted(self) -> None:
        """Count a record for which there was no memory."""
        self._exhausted.add(1, self.clock.tick_ms())

    def groups(self, now_ms: int) -> Iterator[tuple[str, tuple[tuple[str, str], ...], Named]]:
        """Yield those of the producer, and of each topic."""
        yield from super().groups(now_ms)
        yield self.group, (), self._named(now_ms)
        for name, topic in list(self._topics.items()):
            yield "producer-topic-metrics", (("topic", name),), self._of_topic(topic, now_ms)

    def _of_topic(self, topic: _Topic, now_ms: int) -> Named:
        yield from _records([topic], now_ms)
        yield from counted("byte", Sum([topic.encoded], now_ms))

    def _named(self, now_ms: int) -> Named:
        topics = list(self._topics.values())
        yield from _records(topics, now_ms)
        yield from spread("record-queue-time", Sum([self._queue_time], now_ms))
        yield from spread("batch-size", Sum([one.encoded for one in topics], now_ms))
        requests = Sum([self._records_in_request], now_ms)
        bare = Sum([one.bytes for one in topics], now_ms).window_sum
        yield "record-size-avg", ratio(bare, requests.window_sum)
        yield "records-per-request-avg", requests.average()
        yield from counted("buffer-exhausted", Sum([self._exhausted], now_ms))
        yield "requests-in-flight", self.in_flight()
        total, available = self.buffer_bytes()
        yield "buffer-total-bytes", total
        yield "buffer-available-bytes", available
        yield from spread("produce-latency", self.responses(ApiKey.PRODUCE, now_ms))
