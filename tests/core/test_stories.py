"""The scenarios in tests/scripts/<machine>/*.txt; `--rewrite` puts what they print into the files."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from support.stories.shard_story import play

MACHINES = {
    "access": 8,
    "alerts": 15,
    "console_alerts": 12,
    "controller": 30,
    "file_tracker": 20,
    "follower": 8,
    "group": 10,
    "group_member": 15,
    "sasl": 18,
    "transaction": 15,
    "transaction_markers": 24,
    "transactional_producer": 15,
    "update_delivery": 8,
    "verification": 20,
}
"""Minimum of scenarios of each."""
SCRIPTS = [
    script
    for machine in MACHINES
    for script in sorted((Path(__file__).parent.parent / "scripts" / machine).glob("*.txt"))
]


@pytest.mark.parametrize("machine", MACHINES)
def test_there_are_stories(machine: str) -> None:
    assert sum(script.parent.name == machine for script in SCRIPTS) >= MACHINES[machine]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_story_goes_as_it_is_written(script: Path, request: pytest.FixtureRequest) -> None:
    story = importlib.import_module(f"support.stories.{script.parent.name}_story").Story()
    output = play(story, script.read_text())
    if request.config.getoption("--rewrite", default=False):
        script.write_text(output)
    assert output == script.read_text()
