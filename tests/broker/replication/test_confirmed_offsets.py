"""Committed offsets for exactly-once consumers come from a coordinator that is none of the past (decision 013)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.core.group.records import CommittedOffset, PendingOffsetRecord
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from support.replication import INTERNAL_ID
from support.waiting import until

Play = Callable[..., None]
OFFSETS = TopicPartition("__consumer_offsets", 0)
SETTINGS = {"offsets__topic__num__partitions": "1", "offsets__commit__timeout__ms": "500"}


async def coordinated(cluster: Any, *, in_sync: list[int]) -> Peer:
    """Have the group's offset 7 committed by broker 1 while it is alone, then these brokers in sync."""
    await cluster.start(1)
    cluster.ports[2] = cluster.ports[1]
    await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
    await cluster.coordinate(OFFSETS, in_sync=[1], epoch=0)
    peer: Peer = await cluster.peer(1)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[row])]
    )
    response = await peer.send(commit, 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    await cluster.coordinate(OFFSETS, in_sync=in_sync, epoch=1)
    await until(lambda: not cluster.brokers[1].groups.shard_of("g").machine.is_loading)
    return peer


def asked(*, stable: bool) -> OffsetFetchRequest:
    topic = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def outcome(response: Any) -> tuple[int, list[int]]:
    """Return the group's error and the offsets."""
    (group,) = response.groups
    offsets = [row.committed_offset for topic in group.topics for row in topic.partitions]
    return group.error_code, offsets


def follow(offset: int) -> FetchRequest:
    """Fetch as broker 2, to which the log is known up to `offset`."""
    part = FetchRequestPartition(
        fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=1
    )
    return FetchRequest(
        replica_state=FetchRequestReplicaState(replica_id=2, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchRequestTopic(topic_id=INTERNAL_ID, partitions=[part])],
    )


def end_offset(cluster: Any) -> int:
    log = cluster.replica(1, OFFSETS).log
    return int(log.log_end_offset)


def test_a_coordinator_that_is_alone_in_sync_answers_at_once_and_writes_nothing(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1])
        before = end_offset(cluster)
        assert outcome(await peer.send(asked(stable=True))) == (ErrorCode.NONE, [7])
        assert end_offset(cluster) == before

    play(story, **SETTINGS)


def test_a_response_waits_until_the_other_replicas_have_shown_that_they_still_follow(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        before = end_offset(cluster)
        response = asyncio.ensure_future(peer.send(asked(stable=True)))
        await until(lambda: end_offset(cluster) == before + 1)
        assert not response.done()
        await (await cluster.peer(1)).send(follow(before + 1))
        assert outcome(await response) == (ErrorCode.NONE, [7])

    play(story, **SETTINGS | {"offsets__commit__timeout__ms": "60000"})


@pytest.mark.parametrize("others", [1, 3])
def test_a_coordinator_without_followers_returns_no_offsets(play: Play, others: int) -> None:
    """It may be deposed, and its offsets older than those that the group got."""

    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        responses = await asyncio.gather(*(peer.send(asked(stable=True)) for _ in range(others)))
        assert [outcome(response) for response in responses] == [
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        ] * others

    play(story, **SETTINGS)


def test_a_client_that_does_not_ask_for_stable_offsets_gets_what_is_known(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        assert outcome(await peer.send(asked(stable=False))) == (ErrorCode.NONE, [7])

    play(story, **SETTINGS)


def test_many_groups_wait_side_by_side(play: Play) -> None:
    """One request asks for five groups; there are no followers: it takes one timeout, not five."""

    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        names = [f"g{n}" for n in range(5)]
        topics = [OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names]
        loop = asyncio.get_running_loop()
        began = loop.time()
        response = await peer.send(OffsetFetchRequest(groups=groups, require_stable=True))
        assert [g.error_code for g in response.groups] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ] * 5
        assert loop.time() - began < 1.5

    play(story, **SETTINGS)


def test_version_7_has_the_error_of_the_group(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        response = await peer.send(
            OffsetFetchRequest(group_id="g", topics=None, require_stable=True), 7
        )
        assert (response.error_code, response.topics) == (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            [],
        )

    play(story, **SETTINGS)


def test_unstable_offsets_are_answered_without_a_record(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        shard = cluster.brokers[1].groups.shard_of("g")
        shard.machine.apply(PendingOffsetRecord("g", "t", 0, CommittedOffset(9), 5, 0))
        before = end_offset(cluster)
        await peer.send(asked(stable=True))
        assert end_offset(cluster) == before

    play(story, **SETTINGS)


def test_a_heartbeat_does_not_wait_for_the_confirmation_of_another_group(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await coordinated(cluster, in_sync=[1, 2])
        other = await cluster.peer(1)
        before = end_offset(cluster)
        response = asyncio.ensure_future(peer.send(asked(stable=True)))
        await until(lambda: end_offset(cluster) == before + 1)
        async with asyncio.timeout(1):
            await other.send(HeartbeatRequest(group_id="h", generation_id=1, member_id="m"))
        response.cancel()

    play(story, **SETTINGS | {"offsets__commit__timeout__ms": "5000"})
