"""The fixture of this folder: brokers in this process whose controller is the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.in_process import dotted, run_story
from support.replication import Play, ReplicaCluster, Story


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Return what runs a story on a cluster; keyword arguments are settings with `__` for dots."""

    def play_on(story: Story, **settings: str) -> None:
        run_story(ReplicaCluster(tmp_path, dotted(settings)), story)

    return play_on
