"""Gives every assigned partition a valid position: committed, looked up, or checked against a new leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kavka.client.cluster import Cluster
from kavka.client.consumer.offsets import CommittedOffsets
from kavka.client.consumer.subscription import PartitionState, ResetPolicy, Subscription
from kavka.client.list_offsets import list_offsets_once
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
)

log = logging.getLogger(__name__)

_CONSUMERS_VERSION = 3


class Positions:
    """Runs the lookups in a task, so that a poll can return before they are done."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        offsets: CommittedOffsets | None,
        *,
        reset: ResetPolicy | None,
        read_committed: bool,
        timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        """Without `offsets`, there is no group to ask. `reset` is `auto.offset.reset`, None for "none".

        `on_change` wakes a waiting poll when there is a lookup to do, or one is over.
        """
        self._cluster = cluster
        self._subscription = subscription
        self._offsets = offsets
        self._reset = reset
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._attempt = 0
        cluster.when_updated(self._on_metadata)

    def _on_metadata(self) -> None:
        """Mark what a new leader must be asked about, before anything is fetched from it."""
        metadata = self._cluster.metadata
        for topic_partition, state in self._subscription.partitions.items():
            state.on_leader(metadata.leader_epoch(topic_partition))
            if state.needs_validation:
                self._on_change()

    async def update(self, deadline: float) -> None:
        """Look missing positions up until loop time `deadline`. Raise KafkaError where a decision is needed."""
        loop = asyncio.get_running_loop()
        while True:
            task = self._task
            if task is None:
                if not any(_needs_work(state) for state in self._subscription.partitions.values()):
                    return
                self._task = task = loop.create_task(self._work())
                task.add_done_callback(lambda _: self._on_change())
            done, _ = await asyncio.wait({task}, timeout=max(deadline - loop.time(), 0))
            if not done:
                return
            if self._task is task:  # several calls may wait for it
                self._task = None
            task.result()

    async def close(self) -> None:
        """Cancel the lookups."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        """Go once through everything that is missing; what could not be found out waits for the back-off."""
        outcomes = await asyncio.gather(self._find(), self._validate_all(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, OSError | CorruptFrame):
                log.info("positions not known yet reason=%s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
        if any(_needs_work(state) for state in self._subscription.partitions.values()):
            await self._cluster.back_off(self._attempt)
            self._attempt += 1
        else:
            self._attempt = 0

    async def _find(self) -> None:
        states = [s for s in self._subscription.partitions.values() if s.position is None]
        await self._from_commits([s for s in states if s.reset is None])
        await self._look_up([s for s in states if s.reset is not None])

    async def _from_commits(self, states: list[PartitionState]) -> None:
        if not states:
            return
        moves = [(state, state.position_changes) for state in states]
        committed = {}
        if self._offsets is not None:
            committed = await self._offsets.fetch(
                [s.topic_partition for s in states], self._timeout_ms
            )
        homeless = []
        for state, count in moves:
            if state.position_changes != count or not self._is_assigned(state):
                continue
            where = committed.get(state.topic_partition)
            if where is not None:
                state.seek(where.offset, where.leader_epoch)
            elif self._reset is not None:
                state.request_reset(self._reset)
            else:
                homeless.append(str(state.topic_partition))
        if homeless:
            detail = (
                f"Undefined offset with no reset policy for partitions: [{', '.join(homeless)}]"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)

    async def _look_up(self, states: list[PartitionState]) -> None:
        wanted = {s.topic_partition: s.reset.value for s in states if s.reset is not None}
        if not wanted:
            return
        moves = {state.topic_partition: state.position_changes for state in states}
        await self._cluster.add_partitions_of_interest(wanted)
        found = await list_offsets_once(self._cluster, wanted, read_committed=self._read_committed)
        for state in states:
            result = found.get(state.topic_partition)
            if (
                result is None
                or state.position_changes != moves[state.topic_partition]
                or not self._is_assigned(state)
            ):
                continue
            if not isinstance(result, KafkaError):
                state.seek(result.offset)
                log.debug(
                    "position reset partition=%s offset=%d", state.topic_partition, result.offset
                )
            elif not result.retriable:
                raise result

    # A new leader may have a shorter log (KIP-320)

    async def _validate_all(self) -> None:
        leaders: dict[BrokerId, list[PartitionState]] = {}
        metadata = self._cluster.metadata
        for state in self._subscription.partitions.values():
            if not state.needs_validation:
                continue
            leader = metadata.leader(state.topic_partition)
            if leader is None:
                self._cluster.mark_stale()
            elif (
                metadata.leader_epoch(state.topic_partition) < 0
            ):  # a broker from before leader epochs
                state.on_validated(-1)
            else:
                leaders.setdefault(leader, []).append(state)
        await asyncio.gather(*(self._validate_at(b, states) for b, states in leaders.items()))

    async def _validate_at(self, leader: BrokerId, states: list[PartitionState]) -> None:
        epochs = {
            state.topic_partition: self._cluster.metadata.leader_epoch(state.topic_partition)
            for state in states
        }
        asked = {state.topic_partition: (state, state.position_changes) for state in states}
        try:
            peer = await self._cluster.peer(leader)
            if not _can_validate(peer):
                for state in states:
                    state.on_validated(epochs[state.topic_partition])
                return
            response: OffsetForLeaderEpochResponse = await peer.send(
                _epoch_request(states, epochs), timeout_ms=self._cluster.request_timeout_ms
            )
        except (OSError, CorruptFrame):
            self._cluster.mark_stale()
            raise
        for topic in response.topics:
            for result in topic.partitions:
                topic_partition = TopicPartition(topic.topic, result.partition)
                if topic_partition not in asked:
                    continue
                state, moves = asked[topic_partition]
                if state.position_changes == moves and self._is_assigned(state):
                    self._on_validated(state, result, epochs[topic_partition])

    def _on_validated(
        self, state: PartitionState, result: OffsetForLeaderEpochResponsePartition, epoch: int
    ) -> None:
        code = ErrorCode.of(result.error_code)
        if code is not ErrorCode.NONE:
            log.info(
                "position not validated partition=%s error=%s", state.topic_partition, code.name
            )
            self._cluster.mark_stale()
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise KafkaError(code, f"{state.topic_partition}: {code.message}")
            return
        position, end = state.position, result.end_offset
        is_known = end >= 0 and result.leader_epoch >= 0
        if position is None or (is_known and end >= position):
            state.on_validated(epoch)
            return
        log.warning(
            "log was truncated partition=%s position=%d end=%d",
            state.topic_partition,
            position,
            end,
        )
        if self._reset is None:
            detail = f"the log of {state.topic_partition} was truncated to {end if is_known else 'an unknown offset'}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{detail}, position {position}")
        if is_known:
            state.seek(end, result.leader_epoch)
            state.on_validated(epoch)
        else:
            state.request_reset(self._reset)

    def _is_assigned(self, state: PartitionState) -> bool:
        return self._subscription.partitions.get(state.topic_partition) is state


def _needs_work(state: PartitionState) -> bool:
    return state.position is None or state.reset is not None or state.needs_validation


def _can_validate(peer: Peer) -> bool:
    """Return whether the broker lets consumers ask (KIP-320); what cannot be asked is taken for valid."""
    if not peer.supports(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        return False
    return peer.version_of(ApiKey.OFFSET_FOR_LEADER_EPOCH) >= _CONSUMERS_VERSION


def _epoch_request(
    states: list[PartitionState], epochs: Mapping[TopicPartition, int]
) -> OffsetForLeaderEpochRequest:
    topics = group_by_topic(
        (
            state.topic_partition,
            OffsetForLeaderEpochRequestPartition(
                partition=state.topic_partition.partition,
                current_leader_epoch=epochs[state.topic_partition],
                leader_epoch=state.position_epoch,
            ),
        )
        for state in states
    )
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[OffsetForLeaderEpochRequestTopic(topic=t, partitions=p) for t, p in topics.items()],
    )
