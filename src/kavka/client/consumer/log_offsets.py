"""Offsets of the log that a consumer asks the leaders for: the first, the one after the last, those of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.client import arguments
from kavka.client.cluster import Cluster
from kavka.client.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp, look_up_offsets
from kavka.client.partitions import by_partition, partitions_of
from kavka.ids import TopicPartition


class LogOffsets:
    """Lookups by one consumer. All raise KafkaError (the first refusal) and TimeoutError."""

    def __init__(self, cluster: Cluster, *, read_committed: bool, timeout_ms: int) -> None:
        """`timeout_ms` bounds calls without a timeout of their own; `read_committed` ends at the last stable offset."""
        self._cluster = cluster
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms

    async def first(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = await self._look_up(dict.fromkeys(partitions_of(partitions), EARLIEST), timeout_ms)
        return {topic_partition: result.offset for topic_partition, result in found.items()}

    async def end(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last visible record of each partition."""
        found = await self._look_up(dict.fromkeys(partitions_of(partitions), LATEST), timeout_ms)
        return {topic_partition: result.offset for topic_partition, result in found.items()}

    async def at_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is not older than the time, None where there is none.

        Raise ValueError for a negative time.
        """
        timestamps_ms = by_partition(timestamps_ms)
        negative = [
            topic_partition for topic_partition, timestamp in timestamps_ms.items() if timestamp < 0
        ]
        if negative:
            raise ValueError(f"the target time for partition {negative[0]} is negative")
        found = await self._look_up(timestamps_ms, timeout_ms)
        return {
            topic_partition: result if result.offset >= 0 else None
            for topic_partition, result in found.items()
        }

    async def _look_up(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await look_up_offsets(
            self._cluster,
            wanted,
            read_committed=self._read_committed,
            timeout_ms=self._timeout_ms if timeout_ms is None else arguments.timeout(timeout_ms),
        )
