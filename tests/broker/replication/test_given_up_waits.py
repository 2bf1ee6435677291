"""Producers and followers that go away while their requests wait for replicas, or for records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.wire.frame import encode_request
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.records.compression import Compression
from support.produce import batch, produce_request
from support.waiting import until

Play = Callable[..., None]
STAGES = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Iterations of the loop after which a client goes away."""
WITHOUT_END_MS = 2**31 - 1


def framed(message: Any, version: int) -> bytes:
    return b"".join(map(bytes, encode_request(message, version, 1, "c")))  # type: ignore[arg-type]


def produce(records: int, size: int) -> bytes:
    packed = batch(*[bytes(size)] * records, compression=Compression.ZSTD)
    return framed(produce_request("t", [(0, packed)], timeout_ms=WITHOUT_END_MS), 9)


def follower_fetch(rows: int) -> bytes:
    """Ask as broker 2 for `t-0`, and for partitions that do not exist."""
    asked = [
        FetchRequestPartition(
            partition=n, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=1000
        )
        for n in range(rows)
    ]
    topics = [FetchRequestTopic(topic="t", partitions=asked)]
    request = FetchRequest(
        replica_id=2, session_epoch=0, max_wait_ms=WITHOUT_END_MS, min_bytes=1, topics=topics
    )
    return framed(request, 11)


def held(broker: Any) -> dict[str, Any]:
    """Return what requests hold, by name."""
    files = [s.data for log in broker.replica_manager.store for s in log.segments]
    waiting = broker.dispatcher._responses.pending
    counts = {
        "memory": broker.dispatcher._memory.in_use,
        "frames": broker.request_budget.held_bytes,
        "queued": broker.request_budget.queued,
        "pins": sum(file.pins for file in files),
        "produces": len(broker.produce_purgatory),
        "fetches": len(broker.fetch_purgatory),
        "second stages": len(broker.dispatcher.in_second_stage()),
        "woken": len(waiting._woken),
        "connections": len(broker.dispatcher.connections),
        "tasks": [repr(t) for t in asyncio.all_tasks() if "_stage" in repr(t) or "api" in repr(t)],
    }
    return {name: count for name, count in counts.items() if count}


async def go_away(broker: Any, port: int, data: bytes, *, is_read: bool) -> None:
    """Send the requests again and again, each time on a connection that is aborted at another stage of them.

    A connection that is blocked is not read, so the broker does not see that its client is gone: unless `is_read`,
    the broker aborts it, as after the idle limit.
    """
    for iterations in STAGES:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: broker.dispatcher.connections)
        writer.write(data)
        for _ in range(iterations):
            await asyncio.sleep(0)
        if not is_read:
            for connection in list(broker.dispatcher.connections):
                connection.abort()
        writer.transport.abort()
        await until(lambda: not broker.dispatcher.connections)
    try:
        await until(lambda: not held(broker), timeout_s=20)
    except TimeoutError:
        raise AssertionError(held(broker)) from None


IS_READ = pytest.mark.parametrize("is_read", [True, False], ids=["by client", "by broker"])


@IS_READ
@pytest.mark.parametrize(
    "make",
    [lambda: produce(1, 100) * 20, lambda: produce(100, 50_000) * 3],
    ids=["pipelined", "inflated"],
)
def test_producers_that_go_away_while_they_wait_for_replicas_leave_nothing_behind(
    play: Play, make: Callable[[], bytes], is_read: bool
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        cluster.ports[2] = cluster.ports[1]
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await go_away(cluster.brokers[1], cluster.ports[1], make(), is_read=is_read)
        assert cluster.replica(1).log.log_end_offset > 0

    play(story)


@IS_READ
@pytest.mark.parametrize("rows", [1, 5_000])
def test_a_follower_that_goes_away_while_its_fetch_waits_leaves_nothing_behind(
    play: Play, rows: int, is_read: bool
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        cluster.ports[2] = cluster.ports[1]
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        await go_away(cluster.brokers[1], cluster.ports[1], follower_fetch(rows), is_read=is_read)
        sessions = cluster.brokers[1].replication_manager.followers.sessions
        assert all(session.waiting is None for session in sessions)

    play(story)
