"""The scenarios in tests/scripts/group/*.txt; `--rewrite` puts what they print into the files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts" / "group").glob("*.txt"))
_spec = importlib.util.spec_from_file_location(
    "group_story", Path(__file__).parent / "group_story.py"
)
assert _spec is not None
assert _spec.loader is not None
group_story = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(group_story)


def play(text: str) -> str:
    story = group_story.Story()
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("#")]
        commands = [
            line
            for line in block.split("----")[0].splitlines()
            if line and not line.startswith("#")
        ]
        for command in commands:
            blocks.append("\n".join([*lines, command, "----", story.command(command)]))
            lines = []
        if not commands:
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def test_there_are_stories() -> None:
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_story_goes_as_it_is_written(script: Path, request: pytest.FixtureRequest) -> None:
    told = play(script.read_text())
    if request.config.getoption("--rewrite", default=False):
        script.write_text(told)
    assert told == script.read_text()
