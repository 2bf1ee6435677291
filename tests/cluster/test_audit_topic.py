"""The audit's topic in a cluster: all brokers write to its leader, and to the next one when that is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kavka.broker.requests.session import Session
from kavka.ids import TopicPartition

Run = Callable[..., None]
AUDIT = TopicPartition("audit", 0)


def note(cluster: Any, number: int, reason: str) -> None:
    """Have a broker record something."""
    audit = cluster.brokers[number].security.access_control.audit
    audit.authentication_failed(Session("SASL", "SASL_SSL", "10.0.0.1"), "PLAIN", reason)


async def reasons(cluster: Any) -> list[tuple[int, str]]:
    """Return broker and reason of each line in the topic."""
    lines = [json.loads(value) for value in await cluster.read(AUDIT)]
    return sorted((line["broker"], line["reason"]) for line in lines if "reason" in line)


def test_each_brokers_lines_survive_the_leaders_death(run: Run, tmp_path: Path) -> None:
    async def story(cluster: Any) -> None:
        for number in (1, 2):
            note(cluster, number, "first")
        await cluster.until(lambda: cluster.in_sync(AUDIT) == {1, 2}, "in sync")
        await cluster.until(
            lambda: all(
                broker.security.access_control.audit.topic.written == 1
                for broker in cluster.brokers.values()
            ),
            "written",
        )
        leader = cluster.leader(AUDIT)
        other = 3 - leader
        at_leader = cluster.partition(leader, AUDIT)
        assert at_leader.high_watermark == 2  # what counts as written is on both
        await cluster.kill(leader)
        note(cluster, other, "second")
        await cluster.until(lambda: cluster.leader(AUDIT) == other, "led by the other")
        audit = cluster.brokers[other].security.access_control.audit
        await cluster.until(lambda: audit.topic.written == 2, "written to the next leader")
        assert await reasons(cluster) == sorted([(1, "first"), (2, "first"), (other, "second")])

    run(
        story,
        brokers=2,
        kavka__audit__log=str(tmp_path / "audit-%d.json"),
        kavka__audit__topic="audit",
        kavka__audit__topic__replication__factor="2",
    )
