"""Cases in files as tests of pytest: `test_*.yml` below a project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kavka.pipelines.project import load_project
from kavka.pipelines.testing.cases import Case, CaseError, ExpectedTopic, parse_case
from kavka.pipelines.testing.driver import new_directory, shared_driver
from kavka.pipelines.testing.pipeline import Pipeline, Updated, UpdateFailed, pipeline_under_test
from kavka.pipelines.testing.records import Record
from kavka.pipelines.testing.rows import differences
from kavka.pipelines.yaml_values import yaml_documents


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its cases. Raise CaseError for a file that is not valid."""
        try:
            documents = yaml_documents(self.path)
        except ValueError as error:
            raise self.CollectError(str(error)) from None
        for number, document in enumerate(documents, 1):
            try:
                case = parse_case(document, f"case {number}")
            except CaseError as error:
                raise self.CollectError(f"{self.path}, document {number}: {error}") from None
            item: pytest.Item = CaseItem.from_parent(self, name=case.name, case=case)
            yield item


class Unexpected(Exception):
    """An update has given something else; the message has a line for each difference."""


class CaseItem(pytest.Item):
    """A case as a test."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        """Make the item of a case."""
        super().__init__(**options)
        self._case = case

    def runtest(self) -> None:
        """Run an update between what is given and what is expected. Raise Unexpected, UpdateFailed."""
        project = load_project(self.path.parent)
        directory = new_directory(self.config, "pipelines")
        with pipeline_under_test(project, shared_driver(self.config), directory) as pipeline:
            _check(self._case, pipeline)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the differences alone; anything else with its traceback."""
        if isinstance(excinfo.value, (Unexpected, UpdateFailed)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return where the case stands."""
        return self.path, None, self.name


def _check(case: Case, pipeline: Pipeline) -> None:
    for given in case.given:
        if given.slice:
            pipeline.feed_slice(given.slice, given.topic)
        else:
            pipeline.feed(given.topic, given.records)
    try:
        updated = pipeline.run()
    except UpdateFailed as error:
        if case.fails and case.fails in str(error):
            return
        mismatch = f", and not with: {case.fails}" if case.fails else ""
        raise Unexpected(f"the update failed with: {error}{mismatch}") from None
    if case.fails:
        raise Unexpected(f"the update succeeded, and was to fail with: {case.fails}")
    lines = [*_table_lines(case, pipeline), *_topic_lines(case, pipeline)]
    lines += _count_lines(case, updated)
    if lines:
        raise Unexpected("\n".join(lines))


def _table_lines(case: Case, pipeline: Pipeline) -> Iterator[str]:
    for name, rows in case.tables.items():
        lines = differences(rows, pipeline.table(name))
        yield from [f"table {name}:", *lines] if lines else []


def _topic_lines(case: Case, pipeline: Pipeline) -> Iterator[str]:
    for expected in case.topics:
        records = [_seen(record, expected) for record in pipeline.topic(expected.topic)]
        lines = differences(expected.rows, records)
        yield from [f"topic {expected.topic}:", *lines] if lines else []


def _seen(record: Record, expected: ExpectedTopic) -> Any:
    """Return a record as a case names it: JSON where it is JSON, else text."""
    value = record.text
    with suppress(ValueError):
        value = record.json
    return {"key": record.key_text, "value": value} if expected.with_keys else value


def _count_lines(case: Case, updated: Updated) -> Iterator[str]:
    for flow, counts in case.expectations.items():
        outcomes = updated.expectations(flow)
        for name, failed in counts.items():
            if name not in outcomes:
                names = ", ".join(outcomes) or "none"
                yield f"flow {flow}: it has no expectation {name!r}; it has {names}"
            elif outcomes[name].failed != failed:
                yield f"flow {flow}: {outcomes[name].failed} rows failed {name!r}, expected {failed}"
