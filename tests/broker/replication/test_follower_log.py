"""What a follower does to its log."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

from kavka.broker.replication.follower_log import FollowerLog
from kavka.core.follower import Append

Play = Callable[..., None]


def test_work_that_nobody_begins_because_the_fetcher_stops_leaves_nothing_behind(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.order(2, isr=[2], replicas=[1, 2], to=[1])
        replica = cluster.replica(1)
        is_free = asyncio.Event()
        replica.log.directory.writes.submit(is_free.wait, 1)  # what comes now has to wait
        work = FollowerLog(replica).append(Append(0, 0), memoryview(b"some records"))
        assert work is not None
        del work
        gc.collect()  # a coroutine that was never awaited would be told of now, as an error
        is_free.set()

    play(story)
