"""Gives every assigned partition a valid position: committed, looked up, or checked against a new leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.client.cluster import Cluster
from kavka.client.consumer.offsets import CommittedOffsets
from kavka.client.consumer.subscription import PartitionState, ResetPolicy, Subscription
from kavka.client.list_offsets import list_offsets
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
)

log = logging.getLogger(__name__)


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

        `on_change` wakes a waiting poll when a lookup is over.
        """
        self._cluster = cluster
        self._subscription = subscription
        self._offsets = offsets
        self._reset = reset
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._metadata_seen = -1

    async def update(self, deadline: float) -> None:
        """Work on missing positions until loop time `deadline`. Raise KafkaError where a decision is needed."""
        self._mark_new_epochs()
        if self._task is None:
            if not any(_needs_work(state) for state in self._subscription.partitions.values()):
                return
            self._task = asyncio.get_running_loop().create_task(self._work())
            self._task.add_done_callback(lambda _: self._on_change())
        wait_s = max(deadline - asyncio.get_running_loop().time(), 0)
        done, _ = await asyncio.wait({self._task}, timeout=wait_s)
        if done:
            task, self._task = self._task, None
            task.result()

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        states = [s for s in self._subscription.partitions.values() if _needs_work(s)]
        try:
            await self._from_commits([s for s in states if s.position is None and s.reset is None])
            await self._look_up([s for s in states if s.reset is not None])
            await self._validate([s for s in states if s.needs_validation])
        except (OSError, CorruptFrame) as error:
            log.info("positions not known yet reason=%s", error)
            await self._cluster.back_off(0)

    async def _from_commits(self, states: list[PartitionState]) -> None:
        if not states:
            return
        moves = [(state, state.moves) for state in states]
        committed = {}
        if self._offsets is not None:
            committed = await self._offsets.fetch([s.at for s in states], self._timeout_ms)
        homeless = []
        for state, count in moves:
            if state.moves != count or not self._is_assigned(state):
                continue
            where = committed.get(state.at)
            if where is not None:
                state.seek(where.offset, where.leader_epoch)
            elif self._reset is not None:
                state.ask_reset(self._reset)
            else:
                homeless.append(str(state.at))
        if homeless:
            detail = (
                f"Undefined offset with no reset policy for partitions: [{', '.join(homeless)}]"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)

    async def _look_up(self, states: list[PartitionState]) -> None:
        wanted = {s.at: s.reset.value for s in states if s.reset is not None}
        if not wanted:
            return
        moves = {state.at: state.moves for state in states}
        found = await list_offsets(
            self._cluster, wanted, read_committed=self._read_committed, timeout_ms=self._timeout_ms
        )
        for state in states:
            answer = found[state.at]
            if state.moves != moves[state.at] or not self._is_assigned(state):
                continue
            if isinstance(answer, KafkaError):
                raise answer
            state.seek(answer.offset)
            log.debug("position reset at=%s offset=%d", state.at, answer.offset)

    # A new leader may have a shorter log (KIP-320)

    def _mark_new_epochs(self) -> None:
        metadata = self._cluster.metadata
        if metadata.updates == self._metadata_seen:
            return
        self._metadata_seen = metadata.updates
        for at, state in self._subscription.partitions.items():
            epoch = metadata.leader_epoch(at)
            if epoch <= state.validated_epoch:
                continue
            state.needs_validation = state.position_epoch >= 0 and state.validated_epoch >= 0
            if not state.needs_validation:
                state.validated_epoch = epoch

    async def _validate(self, states: list[PartitionState]) -> None:
        leaders: dict[BrokerId, list[PartitionState]] = {}
        for state in states:
            leader = self._cluster.metadata.leader(state.at)
            if leader is None:
                self._cluster.mark_stale()
            else:
                leaders.setdefault(leader, []).append(state)
        for leader, group in leaders.items():
            await self._validate_at(leader, group)

    async def _validate_at(self, leader: BrokerId, states: list[PartitionState]) -> None:
        metadata = self._cluster.metadata
        topics: dict[str, list[OffsetForLeaderEpochRequestPartition]] = {}
        asked = {
            state.at: (state, state.moves, metadata.leader_epoch(state.at)) for state in states
        }
        for at, (state, _, epoch) in asked.items():
            part = OffsetForLeaderEpochRequestPartition(
                partition=at.partition,
                current_leader_epoch=epoch,
                leader_epoch=state.position_epoch,
            )
            topics.setdefault(at.topic, []).append(part)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderEpochRequestTopic(topic=t, partitions=p) for t, p in topics.items()
            ],
        )
        peer = await self._cluster.peer(leader)
        response: OffsetForLeaderEpochResponse = await peer.send(
            request, timeout_ms=self._cluster.request_timeout_ms
        )
        for topic in response.topics:
            for answer in topic.partitions:
                state, moves, epoch = asked[TopicPartition(topic.topic, answer.partition)]
                if state.moves == moves:
                    self._on_validated(state, answer, epoch)

    def _on_validated(
        self, state: PartitionState, answer: OffsetForLeaderEpochResponsePartition, epoch: int
    ) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._cluster.mark_stale()
            return
        state.needs_validation = False
        state.validated_epoch = epoch
        position = state.position
        if position is None or not 0 <= answer.end_offset < position:
            return
        log.warning(
            "log was truncated at=%s position=%d end=%d", state.at, position, answer.end_offset
        )
        if self._reset is None:
            state.needs_validation = True
            detail = (
                f"the log of {state.at} was truncated to {answer.end_offset}, position {position}"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        state.seek(answer.end_offset, answer.leader_epoch)

    def _is_assigned(self, state: PartitionState) -> bool:
        return self._subscription.partitions.get(state.at) is state


def _needs_work(state: PartitionState) -> bool:
    return state.position is None or state.reset is not None or state.needs_validation
