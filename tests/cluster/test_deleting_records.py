"""DeleteRecords waits for the replicas that are online, and for no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)

Run = Callable[..., None]
T = TopicPartition("t", 0)
HOUR_MS = 3_600_000
SOON_S = 30


def delete(offset: int, timeout_ms: int) -> DeleteRecordsRequest:
    asked = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


async def led_by_one(cluster: Any) -> None:
    """Start a third broker, with a session of an hour; broker 1 leads `t-0` on all of them."""
    cluster.session_ms = HOUR_MS
    await cluster.start(3)
    await cluster.create("t", [1, 2, 3])
    await cluster.must_produce(T, b"a")
    await cluster.must_produce(T, b"b")
    assert cluster.leader(T) == 1


def test_records_are_deleted_before_the_session_of_a_dead_follower_is_over(run: Run) -> None:
    async def story(cluster: Any) -> None:
        await led_by_one(cluster)
        await cluster.kill(3)
        async with asyncio.timeout(SOON_S):
            response = await cluster.send(1, delete(1, HOUR_MS))
        row = response.topics[0].partitions[0]
        assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 1)
        assert 3 in cluster.brokers[1].metadata.brokers, "its session is over"

    run(story, brokers=2)


def test_a_follower_that_comes_back_deletes_what_was_deleted_without_it(run: Run) -> None:
    async def story(cluster: Any) -> None:
        await led_by_one(cluster)
        session = cluster.sessions[3]
        await cluster.kill(3)
        await cluster.send(1, delete(1, HOUR_MS))
        cluster.znode_server.expire(session)
        await cluster.start(3)
        replica = cluster.brokers[3].replica_manager.find
        await cluster.until(
            lambda: getattr(getattr(replica(T), "log", None), "log_start_offset", 0) == 1
        )

    run(story, brokers=2)
