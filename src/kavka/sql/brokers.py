"""The connection of a session: topics, partitions, offsets and ranges, from an event loop in a thread of its own.

Scans call from the engine's threads, and the connection works on while the engine computes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kavka.client.blocking.loop_thread import LoopThread
from kavka.client.cluster import Cluster
from kavka.client.config import CONSUMER, Config
from kavka.client.leader_requests import require_ok, retrying
from kavka.client.list_offsets import EARLIEST, LATEST, look_up_offsets
from kavka.client.range_reader import OnLoss, RangeReader
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.sql.errors import SqlError
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from kavka.wire.records.columns import Columns

T = TypeVar("T")

_AHEAD = 4
"""Ranges whose first fetch is on its way: partitions with little in them cost no round trip each."""
_FIRST_FETCH_BYTES = 256 << 10
"""A LIMIT is often satisfied by the first records."""
_TOPIC = 2
"""A topic as the type of a resource in DescribeConfigs."""


class OffsetRange(NamedTuple):
    """Records of one partition from `start` up to and without `end`."""

    topic_partition: TopicPartition
    start: int
    end: int


class Brokers:
    """A consumer's connection, for calls that block. Calls of several threads take turns on its loop."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Connect. Raise ValueError for a wrong setting, ConnectionError when no broker answers."""
        self.settings = dict(settings)
        self.config = Config(CONSUMER, settings)
        self._read_committed = self.config.text("isolation.level") == "read_committed"
        self._timeout_ms = self.config.integer("default.api.timeout.ms")
        self._thread = LoopThread("sql")
        try:
            self._cluster = self._thread.run(self._start)
        except BaseException:
            self._thread.stop()
            raise

    async def _start(self) -> Cluster:
        cluster = Cluster(
            self.config, network=TcpNetwork(), clock=SystemClock(), random=SystemRandom()
        )
        await cluster.start(0)
        return cluster

    def close(self) -> None:
        """Close the connections and end the thread."""
        with suppress(RuntimeError):
            self._thread.run(self._cluster.close)
        self._thread.stop()

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine function on the connection's loop and return its outcome."""
        return self._thread.run(function, *args)

    def topics(self) -> list[str]:
        """Return the names of all topics, internal ones last."""
        return self.run(self._topics)

    async def _topics(self) -> list[str]:
        self._cluster.want_all_topics()
        await self._retrying_refresh()
        metadata = self._cluster.metadata.topics.values()
        topics = [(topic.is_internal, topic.name) for topic in metadata if not topic.error]
        return [name for _, name in sorted(topics)]

    def partitions(self, topic: str) -> list[TopicPartition] | None:
        """Return the partitions of a topic, None when it does not exist. Raise KafkaError for one that is refused."""
        return self.run(self._partitions, topic)

    async def _partitions(self, topic: str) -> list[TopicPartition] | None:
        await self._cluster.add_partitions_of_interest([TopicPartition(topic, 0)])
        await self._retrying_refresh()
        metadata = self._cluster.metadata.topics.get(topic)
        if metadata is None or metadata.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if metadata.error is ErrorCode.INVALID_TOPIC_EXCEPTION:
            return None
        require_ok(metadata.error, f"topic {topic}")
        return [TopicPartition(topic, part.partition) for part in metadata.partitions]

    async def _retrying_refresh(self) -> None:
        await retrying(self._cluster, self._cluster.refresh, "reading metadata", self._timeout_ms)

    def offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time in milliseconds, or of EARLIEST or LATEST; -1 for none."""
        return self.run(self._offsets, timestamps) if timestamps else {}

    async def _offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        offsets = await look_up_offsets(
            self._cluster,
            timestamps,
            read_committed=self._read_committed,
            timeout_ms=self._timeout_ms,
        )
        return {place: result.offset for place, result in offsets.items()}

    def bounds(self, partitions: Iterable[TopicPartition]) -> list[OffsetRange]:
        """Return the offsets that partitions have now: up to the last stable one for read_committed."""

        async def both() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
            places = list(partitions)
            first = self._offsets(dict.fromkeys(places, EARLIEST))
            last = self._offsets(dict.fromkeys(places, LATEST))
            return await asyncio.gather(first, last)

        starts, ends = self.run(both)
        return [OffsetRange(place, starts[place], ends[place]) for place in starts]

    def has_ordered_timestamps(self, topic: str) -> bool:
        """Return whether the log sets the timestamps of a topic, so that they do not decrease."""
        return self.run(self._has_log_append_time, topic)

    async def _has_log_append_time(self, topic: str) -> bool:
        resource = DescribeConfigsRequestResource(
            resource_type=_TOPIC,
            resource_name=topic,
            configuration_keys=["message.timestamp.type"],
        )
        request = DescribeConfigsRequest(resources=[resource])
        try:
            peer = await self._cluster.any_peer()
            response: DescribeConfigsResponse = await peer.send(
                request, timeout_ms=self._cluster.request_timeout_ms
            )
        except (OSError, KafkaError):
            return False  # all of the topic is read then
        configs = [config for result in response.results for config in result.configs]
        return any(config.value == "LogAppendTime" for config in configs)

    def read(self, ranges: Iterable[OffsetRange], on_loss: OnLoss) -> RangesReader:
        """Start reading ranges, one after the other."""
        return RangesReader(self, self._cluster, list(ranges), on_loss)


class RangesReader:
    """Ranges that are read in order, with the first fetches of the next ones on their way."""

    def __init__(
        self, brokers: Brokers, cluster: Cluster, ranges: list[OffsetRange], on_loss: OnLoss
    ) -> None:
        """Send nothing before the first `next_columns`."""
        self._brokers = brokers
        self._cluster = cluster
        self._waiting = ranges[::-1]
        self._on_loss = on_loss
        self._started: list[tuple[TopicPartition, RangeReader]] = []

    def next_columns(self) -> tuple[TopicPartition, Columns] | None:
        """Return the next records and their partition, None at the end. Raise SqlError, KafkaError, OSError."""
        return self._brokers.run(self._next)

    async def _next(self) -> tuple[TopicPartition, Columns] | None:
        while True:
            await self._start_ahead()
            if not self._started:
                return None
            topic_partition, reader = self._started[0]
            while not reader.is_done:
                columns = await reader.next_columns()
                if columns is not None:
                    return topic_partition, columns
            self._started.pop(0)

    async def _start_ahead(self) -> None:
        while self._waiting and len(self._started) < _AHEAD:
            topic_partition, start, end = self._waiting.pop()
            reader = RangeReader(
                self._cluster,
                self._brokers.config,
                topic_partition,
                range(start, end),
                self._on_loss,
                first_fetch_bytes=_FIRST_FETCH_BYTES,
            )
            self._started.append((topic_partition, reader))
            await reader.start()

    def cancel(self) -> None:
        """Cancel the fetches in flight."""

        async def cancel() -> None:
            for _, reader in self._started:
                reader.cancel()
            self._started.clear()
            self._waiting.clear()

        with suppress(RuntimeError):  # the session was closed first
            self._brokers.run(cancel)


def refused(topic: str) -> SqlError:
    """Return the error for a topic that does not exist."""
    return SqlError(f"The topic {topic} does not exist.")
