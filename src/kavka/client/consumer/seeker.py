"""Moves a consumer's positions: to an offset, back to what was not processed, or to an end of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.fetch.fetcher import Fetcher
from kavka.client.consumer.record_iteration import RecordIteration
from kavka.client.consumer.subscription import ResetPolicy, Subscription
from kavka.client.partitions import offset_of, partition_of, partitions_of
from kavka.ids import TopicPartition


class Seeker:
    """Moves positions, forgets what an iteration has of their partitions, and wakes the fetcher."""

    def __init__(
        self,
        subscription: Subscription,
        iteration: RecordIteration,
        fetcher: Fetcher,
        require_open: Callable[[], None],
    ) -> None:
        """Take the positions, and what depends on them; `require_open` raises once the consumer is closed."""
        self._subscription = subscription
        self._iteration = iteration
        self._fetcher = fetcher
        self._require_open = require_open

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at an offset. Raise ValueError when the partition is not assigned or the offset negative."""
        self._require_open()
        state = self._subscription.state(partition_of(topic_partition))
        offset = offset_of(topic_partition, offset)
        if offset < 0:
            raise ValueError(f"seek offset must not be a negative number: {offset}")
        state.seek(offset)
        self._iteration.discard(topic_partition)
        self._fetcher.wake()

    def reset(self, partitions: Iterable[TopicPartition] | None, policy: ResetPolicy) -> None:
        """Request lookups of positions, of all assigned partitions without `partitions`. Raise as `seek`."""
        self._require_open()
        every = self._subscription.partitions
        for topic_partition in list(every) if partitions is None else partitions_of(partitions):
            self._subscription.state(topic_partition).request_reset(policy)
            self._iteration.discard(topic_partition)
        self._fetcher.notify()

    def go_back(
        self, offsets: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Seek partitions that are still at their position: no seek, revocation or read came between."""
        for topic_partition, offset in offsets.items():
            state = self._subscription.partitions.get(topic_partition)
            if state is not None and state.position == positions[topic_partition]:
                self.seek(topic_partition, offset)

    def go_back_one(self, topic_partition: TopicPartition, position: int, offset: int) -> bool:
        """Seek a partition that is still at its position; return whether it was. An iteration keeps its records."""
        state = self._subscription.partitions.get(topic_partition)
        if state is None or state.position != position:
            return False
        state.seek(offset)
        self._fetcher.wake()
        return True

    def rewind(self, batches: Sequence[FetchedBatches]) -> None:
        """Read the batches of one poll again, those whose partitions have not been moved or taken away since."""
        first: dict[TopicPartition, int] = {}
        last: dict[TopicPartition, int] = {}
        for batch in batches:
            first.setdefault(batch.topic_partition, batch.first_offset)
            last[batch.topic_partition] = batch.next_offset
        self.go_back(first, last)

    def leave_iteration(self) -> None:
        """Leave an iteration: records that it has not reached are fetched again."""
        for topic_partition, offset in self._iteration.unread().items():
            state = self._subscription.partitions.get(topic_partition)
            if state is not None:
                state.seek(offset)
        self._iteration.discard()
