"""The fixture of this folder: one broker in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.net.event_loop import MeasuredEventLoop
from support.one_broker import Run, Story, serve


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs a story against a broker over the test's directory."""

    def run_story(story: Story, **settings: str) -> None:
        with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
            runner.run(serve(tmp_path / "data", story, **settings))

    return run_story
