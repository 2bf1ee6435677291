"""Membership in a group and its committed offsets: the shell of the classic group protocol.

    unjoined --poll--> joining (JoinGroup, SyncGroup; a task) --poll--> stable (heartbeats; a task)
        ^                                                                |
        '---- rebalance announced, generation lost, topics changed ------'

The network part runs in tasks of its own, so that a slow user neither misses heartbeats nor delays them. What the
user can see, revoking and assigning with the listener's calls, happens inside `poll` only, as in the Java client.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kavka.client.cluster import Channel, Cluster
from kavka.client.consumer.assignors import Assignor, Member, RackAware, by_topic, flatten
from kavka.client.consumer.racks import NO_RACKS, PartitionRacks
from kavka.client.consumer.subscription import Mode, OffsetAndMetadata, Subscription
from kavka.client.group_metadata import GroupMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.values import frozen
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.consumer_protocol import (
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kavka.wire.consumer_protocol import Subscription as WireSubscription
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

_JOIN_GRACE_MS = 5_000
_NO_GENERATION = -1
_COORDINATOR_GONE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_GENERATION_GONE = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class RebalanceListener:
    """Override what is of interest; each may be a coroutine. Called inside `poll`, `close` and `unsubscribe`."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        """Finish with partitions that are taken away; committing here is still allowed."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        """Begin with partitions that are new."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Any:
        """Learn that partitions already belong to someone else: nothing can be committed for them."""
        return self.on_revoked(partitions)


class GroupSettings(NamedTuple):
    """Settings of the group membership."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    assignors: list[Assignor]
    rack: str | None
    exclude_internal: bool


@frozen
class Joined:
    """The outcome of a join: what the leader gave to this member."""

    generation: int
    assigned: list[TopicPartition]


class TopicLayout(NamedTuple):
    """The leader's view of the group's topics at an assignment: when it changes, the leader rejoins."""

    counts: dict[str, int]
    """The number of partitions, 0 for a topic that is not there."""
    racks: PartitionRacks
    """Racks of the partitions; empty unless a member has a rack."""


class GroupMember:
    """This consumer as a member of its group. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        settings: GroupSettings,
        *,
        before_revoke: Callable[[], Any],
        on_change: Callable[[], None],
    ) -> None:
        """`before_revoke` (a coroutine) commits if need be; `on_change` wakes a waiting poll."""
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._before_revoke = before_revoke
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self.listener = RebalanceListener()
        self.member_id = ""
        self.generation = _NO_GENERATION
        self._last_heartbeat_s: GroupMetadata | None = None
        self._coordinator: BrokerId | None = None
        self._needs_join = True
        self._reason = "the consumer is new"
        self._is_lost = False
        self._joining: asyncio.Task[Joined] | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._last_poll = self._loop.time()
        self._fatal: Exception | None = None
        self._owned: list[TopicPartition] = []  # what an eager member had before it joined
        self._owned_generation = _NO_GENERATION
        self._joined_topics: list[str] = []
        self._leader_topics: TopicLayout | None = None  # on the leader
        self._metadata_seen = -1

    @property
    def settings(self) -> GroupSettings:
        """The settings."""
        return self._settings

    @property
    def is_groupless(self) -> bool:
        """Return whether the group assigns the partitions, and this member is in no generation: new, joining or
        lost.
        """
        return self._subscription.uses_group and self.generation == _NO_GENERATION

    def metadata(self) -> GroupMetadata:
        """Return who this is in its group, or was in the last generation, which the coordinator may refuse.

        Raise KafkaError REBALANCE_IN_PROGRESS before the first one: without a generation it would count as the
        commit of a tool, which a group without members takes.
        """
        if not self._subscription.uses_group:
            return GroupMetadata(self._settings.group_id)
        if self._last_heartbeat_s is None:
            detail = "the consumer is joining its group: poll until it has partitions"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, detail)
        return self._last_heartbeat_s

    @property
    def is_cooperative(self) -> bool:
        """Return whether partitions are kept while rejoining: all assignors must support it."""
        return all(assignor.is_cooperative for assignor in self._settings.assignors)

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll."""
        if not self._needs_join:
            log.info("rejoin needed group=%s reason=%s", self._settings.group_id, reason)
        self._needs_join = True
        self._reason = reason
        self._on_change()

    async def ensure_active(self, deadline: float) -> None:
        """Do what membership needs, until loop time `deadline`; called by every poll.

        Raise KafkaError when the group refuses this member for good.
        """
        self._last_poll = self._loop.time()
        if self._heartbeats is None:
            self._heartbeats = self._loop.create_task(self._keep_alive())
        while True:
            if self._fatal is not None:
                fatal, self._fatal = self._fatal, None
                raise fatal
            if self._is_lost:
                await self._lose_partitions()
            self._check_metadata()
            if (
                self.generation != _NO_GENERATION
                and self._subscription.topics != self._joined_topics
            ):
                self.request_rejoin("the subscribed topics have changed")
            if self._joining is None:
                if not self._needs_join:
                    return
                await self._prepare()
                self._joining = self._loop.create_task(self._join())
            wait_s = max(deadline - self._loop.time(), 0)
            done, _ = await asyncio.wait({self._joining}, timeout=wait_s)
            if not done:
                return
            task, self._joining = self._joining, None
            if task.exception() is not None:
                self._needs_join = True  # whoever goes on polling tries again
            await self._apply_assignment(task.result())

    async def leave(self, reason: str) -> None:
        """Give up the partitions and, unless the member is static, tell the coordinator."""
        await self._stop_tasks()
        partitions = list(self._subscription.partitions)
        if partitions and self._subscription.uses_group:
            if self._is_lost or self.generation == _NO_GENERATION:
                await _call(self.listener.on_lost, partitions)
            else:
                await _call(self.listener.on_revoked, partitions)
        await self._send_leave(reason)
        self._forget_generation()
        self._is_lost = False
        self._needs_join = True

    async def close(self) -> None:
        """Leave."""
        await self.leave("the consumer is being closed")

    async def _stop_tasks(self) -> None:
        tasks = [task for task in (self._joining, self._heartbeats) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._joining = self._heartbeats = None

    # Joining, the part that the user sees

    async def _prepare(self) -> None:
        """Give up what must not be held while joining."""
        if self._subscription.mode is Mode.PATTERN and not self._subscription.topics:
            with suppress(OSError):  # joining without topics would only mean to join again
                await self._cluster.refresh()
            self._check_metadata()
        await self._before_revoke()
        held = list(self._subscription.partitions)
        self._owned = held or self._owned
        if held and self.generation != _NO_GENERATION:
            self._owned_generation = self.generation
        topics = self._subscription.topics
        gone = [
            topic_partition
            for topic_partition in held
            if not self.is_cooperative or topic_partition.topic not in topics
        ]
        if gone:
            await _call(self.listener.on_revoked, gone)
            self._subscription.replace_assignment(
                topic_partition for topic_partition in held if topic_partition not in gone
            )

    async def _lose_partitions(self) -> None:
        self._is_lost = False
        held = list(self._subscription.partitions)
        self._owned = []
        if held:
            log.warning("partitions lost group=%s count=%d", self._settings.group_id, len(held))
            await _call(self.listener.on_lost, held)
            self._subscription.replace_assignment(())

    async def _apply_assignment(self, joined: Joined) -> None:
        """Take the assignment, unless it is outdated already."""
        if joined.generation != self.generation or self._is_lost:
            self.request_rejoin("the generation ended before it was adopted")
            return
        held = list(self._subscription.partitions)
        revoked = [
            topic_partition for topic_partition in held if topic_partition not in joined.assigned
        ]
        added = [
            topic_partition for topic_partition in joined.assigned if topic_partition not in held
        ]
        if revoked:
            await self._before_revoke()
            await _call(self.listener.on_revoked, revoked)
            self.request_rejoin("revoked partitions can be given to others")
        self._subscription.replace_assignment(joined.assigned)
        self._owned = []
        await _call(self.listener.on_assigned, added)
        log.info(
            "group joined group=%s generation=%d partitions=%d",
            self._settings.group_id,
            joined.generation,
            len(joined.assigned),
        )

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
        if self._leader_topics is not None and not self._needs_join:
            saw = self._leader_topics
            now = self._layout(saw.counts, with_racks=bool(saw.racks))
            if now.counts != saw.counts:
                self.request_rejoin("the number of partitions has changed")
            elif now.racks != saw.racks:
                self.request_rejoin("the racks of partitions have changed")

    # Joining, the part on the network

    async def _join(self) -> Joined:
        """Join and sync until the group is stable or refuses this member."""
        attempt = 0
        while True:
            try:
                return await self._join_once()
            except KafkaError as error:
                if not self._may_rejoin(error.code):
                    self._forget_generation()
                    raise
                if error.code is ErrorCode.MEMBER_ID_REQUIRED:
                    continue
                if error.code in _GENERATION_GONE and self._subscription.partitions:
                    # What a cooperative member still holds may be others' by now.
                    self._is_lost = True
                    return Joined(_NO_GENERATION, [])
                log.info("join refused group=%s error=%s", self._settings.group_id, error.code.name)
            except (OSError, CorruptFrame) as error:
                log.info("join failed group=%s reason=%s", self._settings.group_id, error)
                self._coordinator = None
            await self._cluster.back_off(attempt)
            attempt += 1

    def _may_rejoin(self, code: ErrorCode) -> bool:
        if code in _COORDINATOR_GONE:
            self._coordinator = None
        elif code in _GENERATION_GONE:
            self._forget_generation()
            self._owned = []
        return code.retriable or code in (
            *_COORDINATOR_GONE,
            *_GENERATION_GONE,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )

    async def _join_once(self) -> Joined:
        settings = self._settings
        self._needs_join = False
        self.generation = _NO_GENERATION  # no heartbeats while joining
        topics = list(self._subscription.topics)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type="consumer",
            protocols=self._protocols(topics),
            reason=self._reason[:255],
        )
        peer = await self.peer()
        timeout_ms = settings.max_poll_interval_ms + _JOIN_GRACE_MS
        answer: JoinGroupResponse = await peer.send(request, timeout_ms=timeout_ms)
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        self.member_id = answer.member_id
        self._joined_topics = topics
        assignments: dict[str, list[TopicPartition]] = {}
        self._leader_topics = None
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = await self._perform_assignment(answer)
        assigned = await self._sync(answer, assignments)
        self.generation = answer.generation_id
        self._last_heartbeat_s = GroupMetadata(
            settings.group_id, self.generation, self.member_id, settings.instance_id
        )
        return Joined(answer.generation_id, assigned)

    def _protocols(self, topics: Sequence[str]) -> list[JoinGroupRequestProtocol]:
        held = list(self._subscription.partitions)
        protocols = []
        for assignor in self._settings.assignors:
            subscription = WireSubscription(
                topics=sorted(topics),
                user_data=assignor.user_data(self._owned, self._owned_generation),
                owned_partitions=by_topic(held),
                generation_id=self._owned_generation if held else _NO_GENERATION,
                rack_id=self._settings.rack,
            )
            metadata = encode_subscription(subscription)
            protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=metadata))
        return protocols

    async def _perform_assignment(
        self, answer: JoinGroupResponse
    ) -> dict[str, list[TopicPartition]]:
        """Run the assignor that the group chose."""
        assignor = next(
            (a for a in self._settings.assignors if a.name == answer.protocol_name), None
        )
        if assignor is None:
            detail = f"the group chose the unknown assignor {answer.protocol_name}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        members = [
            Member(m.member_id, m.group_instance_id, decode_subscription(m.metadata))
            for m in answer.members
        ]
        topics = dict.fromkeys(topic for m in members for topic in m.subscription.topics)
        metadata = self._cluster.metadata
        self._cluster.add_topics(topics)
        if any(topic not in metadata.topics for topic in topics):
            await self._cluster.refresh()
        saw = self._layout(topics, with_racks=any(member.rack for member in members))
        self._leader_topics = saw
        counts = {topic: count for topic, count in saw.counts.items() if count}
        if isinstance(assignor, RackAware):
            return assignor.assign_with_racks(counts, members, saw.racks)
        return assignor.assign(counts, members)

    def _layout(self, topics: Iterable[str], *, with_racks: bool) -> TopicLayout:
        metadata = self._cluster.metadata
        known = metadata.topics
        counts = {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}
        return TopicLayout(counts, metadata.racks(counts) if with_racks else NO_RACKS)

    async def _sync(
        self, joined: JoinGroupResponse, assignments: Mapping[str, Sequence[TopicPartition]]
    ) -> list[TopicPartition]:
        settings = self._settings
        request = SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(Assignment(assigned_partitions=by_topic(got))),
                )
                for member_id, got in assignments.items()
            ],
        )
        peer = await self.peer()
        timeout_ms = settings.max_poll_interval_ms + _JOIN_GRACE_MS
        answer: SyncGroupResponse = await peer.send(request, timeout_ms=timeout_ms)
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if not answer.assignment:
            return []
        return flatten(decode_assignment(answer.assignment).assigned_partitions)

    # Staying

    async def _keep_alive(self) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        last_answer = self._loop.time()
        attempt = 0
        while True:
            await asyncio.sleep(interval_s if attempt == 0 else min(0.1 * attempt, interval_s))
            if self.generation == _NO_GENERATION:
                last_answer = self._loop.time()
                attempt = 0
                continue
            if (self._loop.time() - self._last_poll) * 1000 > self._settings.max_poll_interval_ms:
                await self._poll_timed_out()
                continue
            try:
                await self._heartbeat()
            except (OSError, CorruptFrame, KafkaError) as error:
                log.info("heartbeat failed group=%s reason=%s", self._settings.group_id, error)
                if getattr(error, "code", None) is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    self._coordinator = None
                attempt += 1
                if (self._loop.time() - last_answer) * 1000 > self._settings.session_timeout_ms:
                    log.warning(
                        "session timed out without a heartbeat response group=%s",
                        self._settings.group_id,
                    )
            else:
                last_answer = self._loop.time()
                attempt = 0

    async def _heartbeat(self) -> None:
        generation = self.generation
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
        )
        peer = await self.peer()
        timeout_ms = min(self._cluster.request_timeout_ms, self._settings.session_timeout_ms)
        answer = await peer.send(request, timeout_ms=timeout_ms)
        if generation != self.generation:
            return  # about an older life
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("the group is rebalancing")
        elif code in _GENERATION_GONE:
            self._forget_generation()
            self._is_lost = True
            self.request_rejoin(f"heartbeat answered {code.name}")
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget_generation()
            self._is_lost = True
            self._fatal = KafkaError(code)
            self._on_change()
        elif code is not ErrorCode.NONE:
            raise KafkaError(code)

    async def _poll_timed_out(self) -> None:
        log.warning(
            "consumer left its group because poll was not called for max.poll.interval.ms: take less per poll,"
            " or raise the setting group=%s",
            self._settings.group_id,
        )
        await self._send_leave("consumer poll timeout has expired")
        self._forget_generation()
        self._is_lost = True
        self.request_rejoin("poll was not called in time")

    async def _send_leave(self, reason: str) -> None:
        settings = self._settings
        if settings.instance_id is not None or not self.member_id:
            return
        try:
            peer = await self.peer()
            if peer.version_of(ApiKey.LEAVE_GROUP) >= 3:
                member = LeaveGroupRequestMember(member_id=self.member_id, reason=reason)
                request = LeaveGroupRequest(group_id=settings.group_id, members=[member])
            else:
                request = LeaveGroupRequest(group_id=settings.group_id, member_id=self.member_id)
            await peer.send(request, timeout_ms=self._cluster.request_timeout_ms)
        except (OSError, CorruptFrame, KafkaError) as error:
            log.info("leaving not confirmed group=%s reason=%s", settings.group_id, error)

    def _forget_generation(self) -> None:
        self.generation = _NO_GENERATION
        self.member_id = ""

    # The coordinator

    async def peer(self, channel: Channel = Channel.GROUP) -> Peer:
        """Return a connection to the coordinator, finding it if need be. Raise KafkaError, OSError."""
        if self._coordinator is None:
            self._coordinator = await self._cluster.find_coordinator(self._settings.group_id)
        try:
            return await self._cluster.peer(self._coordinator, channel)
        except OSError:
            self._coordinator = None
            raise

    def forget_coordinator(self) -> None:
        """Look the coordinator up again."""
        self._coordinator = None


async def _call(
    call: Callable[[Sequence[TopicPartition]], Any], partitions: Iterable[TopicPartition]
) -> None:
    outcome = call(list(partitions))
    if inspect.isawaitable(outcome):
        await outcome


__all__ = ["GroupMember", "GroupSettings", "OffsetAndMetadata", "RebalanceListener"]
