"""`kavka pipelines test` and `kavka pipelines record`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from kavka.errors import KafkaError
from kavka.pipelines.project import PipelineError, find_spec_file
from kavka.pipelines.testing.records import to_line

PLUGIN = "kavka.pipelines.testing.fixture"
_TESTS = "tests"
_NO_TESTS = 5


def run_tests(start: Path, options: Sequence[str], *, keeps_classes: bool = False) -> int:
    """Run the tests of the project at or above a path, by pytest; return pytest's exit code: 1 when one failed.

    A path below a project's `tests` runs the tests there. Raise PipelineError for a project without tests.
    """
    if find_spec("pytest") is None:
        raise PipelineError("pytest is missing: install it with `pip install pytest`")
    if not start.exists():
        raise PipelineError(f"{start} does not exist: name a project's folder, or a test of it")
    directory = find_spec_file(start if start.is_dir() else start.parent).parent
    tests = directory / _TESTS
    chosen = start.resolve() if start.resolve().is_relative_to(tests) else tests
    if not chosen.exists():
        raise PipelineError(
            f"{directory} has no folder {_TESTS}: write {_TESTS}/test_NAME.py or {_TESTS}/test_NAME.yml "
            "(`kavka pipelines init` brings one to look at)"
        )
    import pytest

    from kavka.pipelines.testing.driver import KeepClasses

    code = pytest.main(
        [
            "-p",
            PLUGIN,
            "-v",
            "--no-header",
            "--tb=short",
            # This process is kavka itself, whose plugin for tests with brokers pytest would rewrite.
            "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning",
            f"--rootdir={directory}",
            *options,
            str(chosen),
        ],
        plugins=[KeepClasses()] if keeps_classes else [],
    )
    if code == _NO_TESTS:
        raise PipelineError(f"{chosen} has no tests that were chosen")
    return int(code)


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a topic that is recorded."""

    topic: str
    partitions: Sequence[int] = field(default_factory=list)
    """These only; all without any."""
    start_ms: int | None = None
    end_ms: int | None = None
    """The end does not belong to it."""
    most: int = 1000
    """Records at most, of all partitions together."""


def record_slice(settings: Mapping[str, str], selection: Slice, file: Path) -> int:
    """Write committed records of a topic into a file and return how many. Raise PipelineError, OSError."""
    if file.exists():
        raise PipelineError(f"{file} exists: choose another name")
    try:
        return asyncio.run(_record(settings, selection, file))
    except KafkaError as error:
        raise PipelineError(f"the topic {selection.topic} cannot be read: {error}") from error


async def _record(settings: Mapping[str, str], selection: Slice, file: Path) -> int:
    from kavka.pipelines.testing.topics import read_records

    count = 0
    records = read_records(
        settings,
        selection.topic,
        partitions=selection.partitions,
        start_ms=selection.start_ms,
        end_ms=selection.end_ms,
    )
    lines = []
    async with aclosing(records):
        async for record in records:
            if count == selection.most:
                break
            lines.append(to_line(record) + "\n")
            count += 1
    with file.open("x", encoding="utf-8") as out:
        out.writelines(lines)
    return count
