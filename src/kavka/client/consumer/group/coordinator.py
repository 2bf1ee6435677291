"""Membership in a group: the shell that leads the dialogues of `kavka.core.group_member`.

The network part runs in tasks of its own; the listener is called inside `poll`, `unsubscribe` and `close` only, as in
the Java client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kavka.client.cluster import Cluster, CoordinatorKind
from kavka.client.consumer.group.channel import GroupChannel, loop_time_ms
from kavka.client.consumer.group.leader import GroupLeader
from kavka.client.consumer.group.rebalance_listener import RebalanceListener, call_listener
from kavka.client.consumer.group.requests import GroupSettings
from kavka.client.consumer.subscription import Mode, Subscription
from kavka.client.coordinator import Coordinator, run_dialogue
from kavka.core.group_member import steps
from kavka.core.group_member.member import GroupMember
from kavka.errors import ErrorCode

log = logging.getLogger(__name__)


class ConsumerCoordinator:
    """The consumer as a member of its group. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        settings: GroupSettings,
        *,
        before_revoke: Callable[[], Any],
        on_change: Callable[[], None],
        on_joined: Callable[[], None],
    ) -> None:
        """`before_revoke` (a coroutine) commits if need be; `on_change` wakes a waiting poll.

        `on_joined` is called after each rebalance.
        """
        self._on_joined = on_joined
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._before_revoke = before_revoke
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._group_id = settings.member.group_id
        self.member = GroupMember(settings.member, subscription, loop_time_ms())
        self.coordinator = Coordinator(cluster, CoordinatorKind.GROUP, self._group_id)
        self._leader = GroupLeader(cluster, settings.assignors)
        self._channel = GroupChannel(
            cluster, self.coordinator, settings, self._leader, self._report_rejoin
        )
        self.listener = RebalanceListener()
        self._joining: asyncio.Task[steps.Joined] | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._is_polling = False
        self._leaves = 0  # calls of `leave` that have not returned: a callback may call it again
        self._poll_deadline = 0.0
        self._metadata_seen = -1

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll."""
        self.member.request_rejoin(reason)
        self._report_rejoin()

    def _report_rejoin(self) -> None:
        reason = self.member.take_rejoin_reason()
        if reason is not None:
            log.info("rejoin needed group=%s reason=%s", self._group_id, reason)
        if self.member.needs_poll:
            self._on_change()

    def is_settled(self) -> bool:
        """Return whether `ensure_active` has nothing to do; called by every poll."""
        self._check_metadata()
        return self.member.is_settled(int(self._loop.time() * 1000))

    async def ensure_active(self, deadline: float) -> None:
        """Run what membership needs, until loop time `deadline`; one poll does it, others continue without.

        Raise KafkaError when the group refuses this member permanently.
        """
        if self._is_polling or self._leaves:  # another task polls or leaves, or a listener does
            return
        self._is_polling = True
        self._poll_deadline = deadline
        if self._heartbeats is None:
            work = run_dialogue(self.member.keep_alive(loop_time_ms()), self._channel.perform_alive)
            self._heartbeats = self._loop.create_task(work)
        try:
            await run_dialogue(self.member.poll(loop_time_ms()), self._perform_poll)
        finally:
            self._is_polling = False
        self._report_rejoin()

    async def leave(self, reason: str) -> None:
        """Revoke the partitions and, unless the member is static, leave the group."""
        self._leaves += 1
        try:
            tasks = [task for task in (self._joining, self._heartbeats) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._joining = self._heartbeats = None
            await run_dialogue(self.member.leave(reason), self._perform_leave)
        finally:
            self._leaves -= 1

    async def close(self) -> None:
        """Leave the group."""
        await self.leave("the consumer is being closed")

    # The part that the user sees

    async def _perform_poll(self, step: steps.PollStep) -> steps.Joined | None:
        match step:
            case steps.CheckMetadata():
                self._check_metadata()
            case steps.RefreshTopics():
                with suppress(OSError):
                    await self._cluster.refresh()
                self._check_metadata()
            case steps.CommitPositions():
                await self._before_revoke()
            case steps.PartitionsLost(partitions):
                log.warning("partitions lost group=%s count=%d", self._group_id, len(partitions))
                await call_listener(self.listener.on_lost, partitions)
            case steps.PartitionsRevoked(partitions):
                await call_listener(self.listener.on_revoked, partitions)
            case steps.PartitionsAssigned(partitions, generation, count):
                self._on_joined()
                await call_listener(self.listener.on_assigned, partitions)
                log.info(
                    "group joined group=%s generation=%d partitions=%d",
                    self._group_id,
                    generation,
                    count,
                )
            case steps.StartJoin():
                work = run_dialogue(self.member.join(), self._channel.perform_join)
                self._joining = self._loop.create_task(work)
            case steps.AwaitJoin():
                return await self._await_join()
        return None

    async def _await_join(self) -> steps.Joined | None:
        task = self._joining
        assert task is not None
        wait_s = max(self._poll_deadline - self._loop.time(), 0)
        done, _ = await asyncio.wait({task}, timeout=wait_s)
        if not done or task.cancelled():  # by `leave` in another task
            return None
        self._joining = None
        return task.result()

    def _check_metadata(self) -> None:
        """Rejoin when the topics of a pattern, or the partitions or racks that the leader saw, have changed.

        A topic that was deleted has none: its partitions must not stay assigned.
        """
        metadata = self._cluster.metadata
        if metadata.updates == self._metadata_seen:
            return
        self._metadata_seen = metadata.updates
        if self._subscription.mode is Mode.PATTERN:
            names = (
                t.name
                for t in metadata.topics.values()
                if t.error is ErrorCode.NONE
                and not (self._settings.exclude_internal and t.is_internal)
            )
            self._subscription.match(names)
        change = None if self.member.needs_join else self._leader.change()
        if change is not None:
            self.request_rejoin(change)

    async def _perform_leave(self, step: steps.LeaveStep) -> None:
        match step:
            case steps.PartitionsLost(partitions):
                await call_listener(self.listener.on_lost, partitions)
            case steps.PartitionsRevoked(partitions):
                await call_listener(self.listener.on_revoked, partitions)
            case steps.SendLeave():
                await self._channel.send_leave(step)
