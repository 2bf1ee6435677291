"""Brokers that stop cleanly: the others lead, and no client waits for a broker that has gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kavka.ids import TopicPartition
from kavka.registry.watches import WatchKind
from kavka.storage.checkpoint.clean_shutdown import CLEAN_SHUTDOWN

Run = Any
Cluster = Any
WHERE = TopicPartition("t", 0)
LONG = "60000"


def test_brokers_that_stop_together_do_not_wait_for_each_other(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        async with asyncio.timeout(60):
            await asyncio.gather(*(cluster.stop(number) for number in (1, 2, 3)))

    run(story, controlled__shutdown__retry__backoff__ms=LONG)


def test_brokers_that_stop_in_turn_hand_over_and_the_last_one_just_stops(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        async with asyncio.timeout(60):
            await cluster.stop(1)
            await cluster.until(lambda: cluster.leader(WHERE) == 2, "2 leads")
            await cluster.stop(2)
            await cluster.until(lambda: cluster.leader(WHERE) == 3, "3 leads")
            await cluster.stop(3)

    run(story, controlled__shutdown__retry__backoff__ms=LONG)


def test_broker_whose_peers_are_dead_does_not_wait_for_their_sessions(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.session_ms = 600_000
        await cluster.start(2, 3)
        await cluster.create("t", [1, 2, 3])
        await asyncio.gather(cluster.kill(2), cluster.kill(3))
        async with asyncio.timeout(60):
            await cluster.stop(1)
        for number in (2, 3):
            assert cluster.znode_server.tree.stat(f"/brokers/ids/{number}") is not None

    run(story, brokers=1, controlled__shutdown__retry__backoff__ms="600000")


def test_controller_that_stops_is_not_taken_for_dead(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        for _turn in range(3):
            ruler = cluster.controller
            await cluster.stop(ruler)
            await cluster.until(lambda: cluster.controller > 0, "another rules")
            await cluster.start(ruler)
        assert "controller znode removed" in caplog.text
        assert "dead controller removed" not in caplog.text

    caplog.set_level("INFO", "kavka")
    run(story)


class Departure:
    """Notes whether a broker's logs were closed when its registration went."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker
        self.found_closed_logs: list[bool] = []

    def notify(self, event: object) -> None:
        self.found_closed_logs.append(self._marker.exists())


def test_broker_is_registered_until_its_logs_are_closed(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        departure = Departure(cluster.path / "1" / CLEAN_SHUTDOWN)
        cluster.znode_server.watches.add("/brokers/ids/1", WatchKind.NODE, departure)
        await cluster.stop(1)
        assert departure.found_closed_logs == [True]

    run(story)
