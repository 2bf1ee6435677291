"""Changes of a follower to its log."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.replication.follower_log import FollowerLog
from kavka.core.follower import Append
from kavka.core.partition import Role
from kavka.errors import ErrorCode
from support.produce import batch

Play = Callable[..., None]


@pytest.mark.slow
def test_work_that_a_stopped_fetcher_does_not_begin_leaves_nothing_behind(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.leader_and_isr(2, isr=[2], replicas=[1, 2], to=[1])
        replica = cluster.replica(1)
        is_free = asyncio.Event()
        replica.log.directory.writes.submit(is_free.wait)  # what comes now has to wait
        work = FollowerLog(replica).append(Append(0, 0), memoryview(b"some records"))
        assert work is not None
        del work
        gc.collect()  # a coroutine that was never awaited would be reported now, as an error
        is_free.set()

    play(story)


async def iterations() -> None:
    """Let all tasks run that do not wait for the disk."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_records_that_reach_the_disk_of_a_replica_that_goes_are_of_no_account(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.leader_and_isr(2, isr=[2], replicas=[1, 2], to=[1])
        replica = cluster.replica(1)
        is_free = asyncio.Event()
        replica.log.directory.writes.submit(is_free.wait)
        work = FollowerLog(replica).append(Append(1, 0), memoryview(batch(b"late")))
        assert work is not None
        appending = asyncio.ensure_future(work())
        await iterations()
        assert replica.log.log_end_offset == 1
        deleting = asyncio.ensure_future(
            cluster.brokers[1].replica_manager.stop(replica.topic_partition, -2, delete=True)
        )
        await iterations()
        assert replica.partition.role is Role.NONE
        is_free.set()
        await appending
        assert await deleting is ErrorCode.NONE

    play(story)
