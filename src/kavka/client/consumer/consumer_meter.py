"""The sensors of a consumer: per poll and topic; fetches, commits and the group from their requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from typing import Self

from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.subscription import PartitionState
from kavka.client.metrics.names import Named, counted, occurrences, spread
from kavka.client.metrics.network import ClientMeter
from kavka.client.metrics.sensors import Sensor, Sum, Window, ratio
from kavka.ids import TopicPartition
from kavka.io import Clock
from kavka.wire.apis import ApiKey

_FETCH = "consumer-fetch-manager-metrics"
_GROUP = "consumer-coordinator-metrics"
_NO_LAG = float("nan")


class ConsumerMeter(ClientMeter):
    """The sensors of a consumer."""

    kind = "consumer"
    group = "consumer-metrics"

    def __init__(self, client_id: str, clock: Clock, window: Window) -> None:
        """Begin with zeros."""
        super().__init__(client_id, clock, window)
        self._topics: dict[str, tuple[Sensor, Sensor]] = {}
        self._between_polls, self._idle = Sensor(window), Sensor(window)
        self._polled_ms = -1
        self._rebalances = Sensor(window)
        self.partitions: Callable[[], Iterable[PartitionState]] = tuple

    @classmethod
    def example(cls) -> Self:
        """Return a meter with a topic and a partition."""
        made = super().example()
        made._topics["topic"] = (Sensor(made.window), Sensor(made.window))
        made.partitions = lambda: (PartitionState(TopicPartition("topic", 0)),)
        return made

    def polling(self) -> None:
        """Count the beginning of a poll."""
        now_ms = self.clock.tick_ms()
        if self._polled_ms >= 0:
            self._between_polls.add(now_ms - self._polled_ms, now_ms)
        self._polled_ms = now_ms

    def polled(self) -> None:
        """Count the end of a poll."""
        now_ms = self.clock.tick_ms()
        self._idle.add(now_ms - self._polled_ms, now_ms)

    def consumed(self, batches: FetchedBatches, count: int, size: int) -> None:
        """Count records that are returned; `size` are their bytes as stored."""
        now_ms = self.clock.tick_ms()
        topic = batches.topic_partition.topic
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = (Sensor(self.window), Sensor(self.window))
        known[0].add(count, now_ms)
        known[1].add(size, now_ms)

    def rebalanced(self) -> None:
        """Count a rebalance that is over."""
        self._rebalances.add(1, self.clock.tick_ms())

    def groups(self, now_ms: int) -> Iterator[tuple[str, tuple[tuple[str, str], ...], Named]]:
        """Yield those of polls, of fetches with each topic and partition, and of the group."""
        yield from super().groups(now_ms)
        yield self.group, (), self._of_polls(now_ms)
        states = list(self.partitions())
        yield _FETCH, (), self._of_fetches(now_ms, states)
        for topic, sensors in list(self._topics.items()):
            yield _FETCH, (("topic", topic),), _consumed([sensors], now_ms)
        for state in states:
            topic, partition = state.topic_partition
            tags = (("topic", topic), ("partition", str(partition)))
            yield _FETCH, tags, iter((("records-lag", _lag(state)), ("records-lead", _lead(state))))
        yield _GROUP, (), self._of_group(now_ms, len(states))

    def _of_polls(self, now_ms: int) -> Named:
        last_s = -1.0 if self._polled_ms < 0 else (now_ms - self._polled_ms) / 1000
        yield "last-poll-seconds-ago", last_s
        between = Sum([self._between_polls], now_ms)
        yield from spread("time-between-poll", between)
        idle = Sum([self._idle], now_ms)
        yield "poll-idle-ratio-avg", ratio(idle.average(), between.average())

    def _of_fetches(self, now_ms: int, states: list[PartitionState]) -> Named:
        yield from _consumed(list(self._topics.values()), now_ms)
        fetches = self.responses(ApiKey.FETCH, now_ms)
        yield from occurrences("fetch", fetches)
        yield from spread("fetch-latency", fetches)
        yield from spread("fetch-size", self.response_bytes(ApiKey.FETCH, now_ms))
        lags = [lag for lag in map(_lag, states) if not isnan(lag)]
        yield "records-lag-max", max(lags, default=_NO_LAG)
        leads = [lead for lead in map(_lead, states) if not isnan(lead)]
        yield "records-lead-min", min(leads, default=_NO_LAG)

    def _of_group(self, now_ms: int, assigned: int) -> Named:
        yield "assigned-partitions", assigned
        for name, time, key in _REQUESTS:
            responses = self.responses(key, now_ms)
            yield from occurrences(name, responses)
            yield from spread(time, responses)
        beat_s = self.seconds_since_response(ApiKey.HEARTBEAT, now_ms)
        yield "last-heartbeat-seconds-ago", beat_s
        yield from counted("rebalance", Sum([self._rebalances], now_ms))


_REQUESTS = (
    ("commit", "commit-latency", ApiKey.OFFSET_COMMIT),
    ("heartbeat", "heartbeat-response-time", ApiKey.HEARTBEAT),
    ("join", "join-time", ApiKey.JOIN_GROUP),
    ("sync", "sync-time", ApiKey.SYNC_GROUP),
)


def _consumed(topics: Sequence[tuple[Sensor, Sensor]], now_ms: int) -> Named:
    records = Sum([one for one, _ in topics], now_ms)
    yield from counted("records-consumed", records)
    yield from counted("bytes-consumed", Sum([one for _, one in topics], now_ms))
    yield "records-per-request-avg", records.average()


def _lag(state: PartitionState) -> float:
    if state.position is None or state.high_watermark < 0:
        return _NO_LAG
    return float(max(state.high_watermark - state.position, 0))


def _lead(state: PartitionState) -> float:
    if state.position is None or state.log_start_offset < 0:
        return _NO_LAG
    return float(max(state.position - state.log_start_offset, 0))
