"""The requests of a group member on its connection: joining, heartbeats, leaving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kavka.client.cluster import Channel, Cluster
from kavka.client.consumer.group.leader import GroupLeader
from kavka.client.consumer.group.requests import (
    GroupSettings,
    heartbeat_request,
    join_request,
    join_result,
    leave_request,
    sync_request,
    sync_result,
)
from kavka.client.coordinator import Coordinator
from kavka.core.group_member import steps
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame

log = logging.getLogger(__name__)

_JOIN_GRACE_MS = 5_000
"""Time for the response of a join, beyond that in which all members have to join."""


def loop_time_ms() -> int:
    """Return the time of the running loop in milliseconds."""
    return int(asyncio.get_running_loop().time() * 1000)


class GroupChannel:
    """A member's connection of its own: a join is answered late, and must hold up no commit."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        settings: GroupSettings,
        leader: GroupLeader,
        before_sleep: Callable[[], None],
    ) -> None:
        """`before_sleep` is called when a heartbeat was answered, or has failed."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._settings = settings
        self._leader = leader
        self._before_sleep = before_sleep
        self._group_id = settings.member.group_id

    async def perform_join(self, step: steps.JoinStep) -> Any:
        """Perform a step of `GroupMember.join`. Raise KafkaError, OSError, CorruptFrame."""
        member = self._settings.member
        timeout_ms = member.max_poll_interval_ms + _JOIN_GRACE_MS
        match step:
            case steps.SendJoin():
                joined = join_result(
                    await self._send(join_request(self._settings, step), timeout_ms)
                )
                if joined.code is ErrorCode.NONE:
                    self._leader.resign()
                return joined
            case steps.Assign(joined):
                return await self._leader.assign(joined)
            case steps.SendSync():
                return sync_result(await self._send(sync_request(member, step), timeout_ms))
            case steps.BackOff(attempt, error, forgets_coordinator):
                if isinstance(error, KafkaError):
                    log.info("join refused group=%s error=%s", self._group_id, error.code.name)
                else:
                    log.info("join failed group=%s reason=%s", self._group_id, error)
                if forgets_coordinator:
                    self._coordinator.forget()
                await self._cluster.back_off(attempt)
        return None

    async def _send(self, request: Any, timeout_ms: int) -> Any:
        peer = await self._coordinator.peer(Channel.GROUP)
        return await peer.send(request, timeout_ms=timeout_ms)

    async def perform_alive(self, step: steps.AliveStep) -> Any:
        """Perform a step of `GroupMember.keep_alive`."""
        match step:
            case steps.Sleep(duration_ms):
                self._before_sleep()
                await asyncio.sleep(duration_ms / 1000)
                return loop_time_ms()
            case steps.SendHeartbeat():
                return await self._heartbeat(step)
            case steps.HeartbeatFailed(error, forgets_coordinator, has_session_timed_out):
                log.info("heartbeat failed group=%s reason=%s", self._group_id, error)
                if forgets_coordinator:
                    self._coordinator.forget()
                if has_session_timed_out:
                    log.warning(
                        "session timed out without a heartbeat response group=%s", self._group_id
                    )
            case steps.PollTimedOut():
                log.warning(
                    "consumer left its group because poll was not called for max.poll.interval.ms: take less per poll,"
                    " or raise the setting group=%s",
                    self._group_id,
                )
            case steps.SendLeave():
                await self.send_leave(step)
        return None

    async def _heartbeat(self, step: steps.SendHeartbeat) -> steps.HeartbeatResult:
        member = self._settings.member
        timeout_ms = min(self._cluster.request_timeout_ms, member.session_timeout_ms)
        try:
            response = await self._send(heartbeat_request(member, step), timeout_ms)
        except (OSError, CorruptFrame, KafkaError) as error:
            return steps.HeartbeatResult(ErrorCode.NONE, error, loop_time_ms())
        return steps.HeartbeatResult(ErrorCode.of(response.error_code), None, loop_time_ms())

    async def send_leave(self, step: steps.SendLeave) -> None:
        """Leave; a response that does not come is logged."""
        try:
            peer = await self._coordinator.peer(Channel.GROUP)
            version = peer.version_of(ApiKey.LEAVE_GROUP)
            request = leave_request(self._settings.member, step, version)
            await peer.send(request, timeout_ms=self._cluster.request_timeout_ms)
        except (OSError, CorruptFrame, KafkaError) as error:
            log.info("leaving not confirmed group=%s reason=%s", self._group_id, error)
