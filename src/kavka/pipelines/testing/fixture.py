"""The pytest plugin: the fixture `pipeline`, and cases in files `test_*.yml` of a project.

pytest_plugins = ["kavka.pipelines.testing.fixture"]

@pytest.mark.pipeline(project="../shop")   # optional: the project at the test's folder, or above it
def test_failed_requests_are_alerted(pipeline): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.pipelines.testing.driver import new_directory, shared_driver, stop_driver

if TYPE_CHECKING:
    from kavka.pipelines.testing.pipeline import Pipeline

_DIRECTORY = "pipelines"
_EXIT_CODE = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    line = (
        "pipeline(project=None): the project of the fixture pipeline, relative to the test's folder"
    )
    config.addinivalue_line("markers", line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember how the tests ended."""
    session.config.stash[_EXIT_CODE] = int(exitstatus)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop Spark."""
    stop_driver(config, config.stash.get(_EXIT_CODE, None))


@pytest.fixture
def pipeline(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """Run a project with a broker and empty tables, for one test."""
    from kavka.pipelines.project import load_project
    from kavka.pipelines.testing.pipeline import pipeline_under_test

    marker = request.node.get_closest_marker("pipeline")
    options = {} if marker is None else dict(marker.kwargs)
    project = load_project(request.path.parent / options.pop("project", "."))
    if options:
        raise TypeError(f"the marker pipeline has no option {', '.join(options)}")
    directory = new_directory(request.config, _DIRECTORY)
    with pipeline_under_test(project, shared_driver(request.config), directory) as tested:
        yield tested


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the cases of a project's file."""
    if not (file_path.name.startswith("test_") and file_path.suffix in (".yml", ".yaml")):
        return None
    from kavka.pipelines.project import PipelineError, find_spec_file

    try:
        find_spec_file(file_path.parent)
    except PipelineError:
        return None  # a file of another plugin
    from kavka.pipelines.testing.case_file import CaseFile

    collector: pytest.Collector = CaseFile.from_parent(parent, path=file_path)
    return collector
