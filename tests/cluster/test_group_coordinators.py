"""A group's coordinator fails over: responses while the next one loads, and of the earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from kavka.broker.coordination.partition_replay import PartitionReplay
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

Run = Callable[..., None]
Cluster = Any
T = TypeVar("T")
OFFSETS = TopicPartition("__consumer_offsets", 0)
SETTINGS = {"offsets__topic__num__partitions": "1"}
LOADING, NOT_COORDINATOR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


async def commit(cluster: Cluster, number: int, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    response = await cluster.send(number, OffsetCommitRequest(group_id="g", topics=[topic]), 8)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def committed(cluster: Cluster, number: int) -> tuple[int, list[int]]:
    """Return the error of the group and its offset, from a broker."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    response = await cluster.send(number, OffsetFetchRequest(group_id="g", topics=[topic]), 7)
    return response.error_code, [p.committed_offset for t in response.topics for p in t.partitions]


async def join(cluster: Cluster, number: int) -> int:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    code: int = (await cluster.send(number, request, 5)).error_code
    return code


async def beat(cluster: Cluster, number: int) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    code: int = (await cluster.send(number, request, 3)).error_code
    return code


async def coordinator(cluster: Cluster, number: int) -> int:
    response = await cluster.send(number, FindCoordinatorRequest(key="g"), 3)
    assert response.error_code == ErrorCode.NONE
    found: int = response.node_id
    return found


async def asked_until(ask: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool]) -> None:
    """Ask again as soon as the response is there: each is a round trip, which lets the brokers continue."""
    async with asyncio.timeout(60):
        while not is_enough(await ask()):
            pass


@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_offsets_are_not_returned_before_they_are_loaded_and_by_one_broker_only(
    run: Run, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = PartitionReplay.run

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [3])
        await cluster.create(OFFSETS.topic, [1, 2])
        await asked_until(lambda: commit(cluster, 1, 7), lambda code: code == ErrorCode.NONE)
        assert await beat(cluster, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        may_load = asyncio.Event()

        async def held(reading: Any) -> None:
            await may_load.wait()
            await replay(reading)

        monkeypatch.setattr(PartitionReplay, "run", held)
        await (cluster.kill(1) if way == "killed" else cluster.stop(1))
        await cluster.until(lambda: cluster.leader(OFFSETS) == 2)
        assert await coordinator(cluster, 3) == 2
        assert await committed(cluster, 2) == (LOADING, [])
        assert await commit(cluster, 2, 8) == LOADING
        assert await join(cluster, 2) == LOADING
        assert await beat(cluster, 2) == ErrorCode.NONE  # as Kafka: members are not to give up
        may_load.set()
        await asked_until(lambda: committed(cluster, 2), lambda response: response[0] != LOADING)
        assert await committed(cluster, 2) == (ErrorCode.NONE, [7])

        await cluster.start(1)
        await cluster.until(lambda: cluster.in_sync(OFFSETS) == {1, 2})
        assert (await committed(cluster, 1))[0] == NOT_COORDINATOR
        assert await commit(cluster, 1, 9) == NOT_COORDINATOR
        assert await join(cluster, 1) == NOT_COORDINATOR
        assert await beat(cluster, 1) == NOT_COORDINATOR
        assert await committed(cluster, 2) == (ErrorCode.NONE, [7])

    run(story, **SETTINGS)
