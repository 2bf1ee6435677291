"""Automatic commits (`enable.auto.commit`): in the background of polls, and before partitions are revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kavka.client.consumer.subscription import Subscription
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)

_REVOKE_COMMIT_MS = 5_000
"""Maximum time of the commit before partitions are revoked or the consumer is closed."""

Positions = dict[TopicPartition, OffsetAndMetadata]


class ConsumerCalls(NamedTuple):
    """Functions of the consumer that its automatic commits call."""

    consumed: Callable[[], Positions]
    """Return the positions that count as consumed."""
    commit: Callable[[Positions, int], Awaitable[None]]
    """Commit them, within a time in milliseconds."""
    is_groupless: Callable[[], bool]
    """Return whether the consumer is no member now, so that it cannot commit."""


class AutoCommit:
    """The commits of one consumer; one is in progress at a time. Failures are logged."""

    def __init__(
        self,
        subscription: Subscription,
        calls: ConsumerCalls,
        group_id: str,
        interval_ms: int,
        timeout_ms: int,
    ) -> None:
        """Take `auto.commit.interval.ms` and `default.api.timeout.ms`; the first interval begins with a poll."""
        self._subscription = subscription
        self._calls = calls
        self._group_id = group_id
        self._interval_s = interval_ms / 1000
        self._timeout_ms = timeout_ms
        self._next_commit = 0.0
        self._task: asyncio.Task[None] | None = None

    def poll(self, now: float) -> None:
        """Commit in the background if that is due at loop time `now`."""
        if now < self._next_commit or self._calls.is_groupless():
            return
        if self._next_commit == 0.0:
            self._next_commit = now + self._interval_s
            return
        if self._task is not None and not self._task.done():
            return
        self._next_commit = now + self._interval_s
        changed = self._changed_positions()
        if changed:
            work = self._commit(changed, self._timeout_ms)
            self._task = asyncio.get_running_loop().create_task(work)

    async def commit_all(self) -> None:
        """Commit what was consumed since the last commit, after the one in progress."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._calls.is_groupless():
            return
        changed = self._changed_positions()
        if changed:
            await self._commit(changed, _REVOKE_COMMIT_MS)

    async def close(self) -> None:
        """Cancel the commit in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed_positions(self) -> Positions:
        partitions = self._subscription.partitions
        return {
            topic_partition: position
            for topic_partition, position in self._calls.consumed().items()
            if partitions[topic_partition].last_committed != position
        }

    async def _commit(self, offsets: Positions, timeout_ms: int) -> None:
        try:
            await self._calls.commit(offsets, timeout_ms)
        except (KafkaError, OSError) as error:
            log.warning("automatic commit failed group=%s reason=%s", self._group_id, error)
