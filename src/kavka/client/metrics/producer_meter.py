"""What a producer counts: per batch when it is sent, repeated, and done; by topic, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

from kavka.client.metrics.names import Named, counted, spread
from kavka.client.metrics.network import ClientMeter
from kavka.client.metrics.sensors import Sensor, Window
from kavka.client.producer.batch import ProducerBatch
from kavka.io import Clock
from kavka.wire.apis import ApiKey


class _Records:
    """Records of a producer, or of one of its topics."""

    __slots__ = ("bytes", "compression", "failed", "repeated", "written")

    def __init__(self, window: Window) -> None:
        self.written = Sensor(window)
        self.failed = Sensor(window)
        self.repeated = Sensor(window)
        self.bytes = Sensor(window)
        self.compression = Sensor(window)

    def named(self, now_ms: int) -> Named:
        yield from counted("record-send", self.written, now_ms)
        yield from counted("record-error", self.failed, now_ms)
        yield from counted("record-retry", self.repeated, now_ms)
        yield "compression-rate-avg", self.compression.average(now_ms)


class ProducerMeter(ClientMeter):
    """The sensors of a producer."""

    kind = "producer"
    group = "producer-metrics"

    def __init__(self, client_id: str, clock: Clock, window: Window) -> None:
        """Begin with zeros."""
        super().__init__(client_id, clock, window)
        self._all = _Records(window)
        self._topics: dict[str, _Records] = {}
        self._queue_time = Sensor(window)
        self._batch_size = Sensor(window)
        self._records_in_request = Sensor(window)
        self._exhausted = Sensor(window)
        self._record_bytes = Sensor(window)
        self.buffer_bytes: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Return `buffer.memory` and how much of it is free."""
        self.in_flight: Callable[[], int] = lambda: 0

    @classmethod
    def example(cls) -> Self:
        """Return a meter with a topic."""
        made = super().example()
        made._topic("topic")
        return made

    def _topic(self, name: str) -> _Records:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Records(self.window)
        return found

    def sending(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Count the batches of a request."""
        self._records_in_request.add(sum(batch.count for batch in batches), now_ms)
        for batch in batches:
            size, encoded = batch.size, batch.encoded_bytes
            self._queue_time.add(now_ms - batch.created_ms, now_ms)
            self._batch_size.add(encoded, now_ms)
            self._record_bytes.add(size / (batch.count or 1), now_ms)
            topic = self._topic(batch.topic_partition.topic)
            topic.bytes.add(encoded, now_ms)
            for records in (self._all, topic):
                records.compression.add(encoded / (size or 1), now_ms)

    def repeating(self, batch: ProducerBatch) -> None:
        """Count a batch that goes back into the queue."""
        now_ms = self.clock.tick_ms()
        for records in (self._all, self._topic(batch.topic_partition.topic)):
            records.repeated.add(batch.count, now_ms)

    def done(self, batch: ProducerBatch, is_written: bool) -> None:
        """Count a batch whose fate is known."""
        now_ms = self.clock.tick_ms()
        for records in (self._all, self._topic(batch.topic_partition.topic)):
            (records.written if is_written else records.failed).add(batch.count, now_ms)

    def exhausted(self) -> None:
        """Count a record for which there was no memory."""
        self._exhausted.add(1, self.clock.tick_ms())

    def groups(self, now_ms: int) -> Iterator[tuple[str, tuple[tuple[str, str], ...], Named]]:
        """Yield those of the producer, and of each topic."""
        yield from super().groups(now_ms)
        yield self.group, (), self._named(now_ms)
        for name, records in list(self._topics.items()):
            yield "producer-topic-metrics", (("topic", name),), self._of_topic(records, now_ms)

    def _of_topic(self, records: _Records, now_ms: int) -> Named:
        yield from records.named(now_ms)
        yield from counted("byte", records.bytes, now_ms)

    def _named(self, now_ms: int) -> Named:
        yield from self._all.named(now_ms)
        yield from spread("record-queue-time", self._queue_time, now_ms)
        yield from spread("batch-size", self._batch_size, now_ms)
        yield from spread("record-size", self._record_bytes, now_ms)
        yield "records-per-request-avg", self._records_in_request.average(now_ms)
        yield from counted("buffer-exhausted", self._exhausted, now_ms)
        yield "requests-in-flight", self.in_flight()
        total, available = self.buffer_bytes()
        yield "buffer-total-bytes", total
        yield "buffer-available-bytes", available
        yield from spread("produce-latency", self.answers(ApiKey.PRODUCE), now_ms)
