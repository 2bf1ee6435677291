"""Positions as the user sees them: what an iteration has at hand and has not returned is not consumed yet."""

from __future__ import annotations

import asyncio

from kavka.client.consumer.positions import Positions
from kavka.client.consumer.record_iteration import RecordIteration
from kavka.client.consumer.subscription import Subscription
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.ids import TopicPartition


class ConsumedPositions:
    """The offset of each partition's next record for the user, to be returned, committed or compared with the end."""

    def __init__(
        self,
        subscription: Subscription,
        iteration: RecordIteration,
        positions: Positions,
        *,
        read_committed: bool,
    ) -> None:
        """`positions` looks up those that are not known; with `read_committed` the end is the last stable offset."""
        self._subscription = subscription
        self._iteration = iteration
        self._positions = positions
        self._read_committed = read_committed

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a commit without offsets commits: all assigned partitions whose position is known."""
        unread = self._iteration.unread()
        return {
            topic_partition: OffsetAndMetadata(
                unread.get(topic_partition, state.position), "", state.position_epoch
            )
            for topic_partition, state in self._subscription.partitions.items()
            if state.position is not None
        }

    async def position(self, topic_partition: TopicPartition, timeout_ms: int) -> int:
        """Return the offset of the next record, looking it up if need be.

        Raise TimeoutError, ValueError when the partition is not assigned, and as `Positions.update`.
        """
        unread = self._iteration.unread().get(topic_partition)
        if unread is not None:
            return unread
        state = self._subscription.state(topic_partition)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while state.position is None:
            await self._positions.update(deadline)
            if state.position is None:
                if loop.time() >= deadline:
                    raise TimeoutError(f"the position of {topic_partition} is not known in time")
                await asyncio.sleep(0.01)
        return state.position

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end, as of the last fetch; None before one.

        Raise ValueError when the partition is not assigned.
        """
        state = self._subscription.state(topic_partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        if state.position is None or end < 0:
            return None
        return max(end - self._iteration.unread().get(topic_partition, state.position), 0)
