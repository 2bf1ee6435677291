"""The fixture of this folder: three brokers in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.ids import BrokerId
from support.cluster import Cluster, Run, Story
from support.in_process import dotted, run_story


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a story on three brokers; keyword arguments are settings with `__` for dots."""

    def run_on(story: Story, brokers: int = 3, **settings: str) -> None:
        replicas = str(min(3, max(1, brokers)))
        texts = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **dotted(settings),
        }
        numbers = range(1, brokers + 1)

        async def start(cluster: Cluster) -> None:
            await cluster.start(*numbers)
            alive = set(map(BrokerId, numbers))
            await cluster.until(
                lambda: all(set(b.metadata.brokers) == alive for b in cluster.brokers.values()),
                "all know all",
            )

        run_story(Cluster(tmp_path, texts), story, start)

    return run_on
