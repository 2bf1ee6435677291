"""Cases of a test as files: what topics are given, and what tables and topics hold after an update. Pure.

    name: failed requests are alerted
    given:
      shop-events:                                   # rows: the JSON of each record's value
        - {user: bob, page: /b, status: 500}
    expect:
      tables:
        requests_by_page:
          - {page: /b, requests: 1}
      topics:
        shop-alerts:
          - {page: /b, status: 500}

A topic of `given` may also be {rows: [...], key: FIELD}, {records: [{key, value, timestamp, headers, partition}]} or
{slice: FILE}. Below `topics` {records: [{key, value}]} compares keys as well. `expectations: {FLOW: {NAME: FAILED}}`
has counts of rows that failed, `fails: TEXT` what an update that is to fail says. A file may have several cases, with
`---` between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from kavka.pipelines.testing.records import Record, to_bytes, to_record
from kavka.pipelines.yaml_values import list_of, mapping_of

_GIVEN = ("rows", "key", "records", "slice")
_EXPECTED = ("tables", "topics", "expectations")
_RECORD = ("key", "value", "timestamp", "headers", "partition")


class CaseError(ValueError):
    """A file is not a valid case; the message says what is wrong and what to write."""


_mapping = partial(mapping_of, error=CaseError)
_list = partial(list_of, error=CaseError)


@dataclass(frozen=True, slots=True)
class GivenTopic:
    """The records that are fed into a topic, or a recorded slice."""

    topic: str
    records: tuple[Record, ...] = ()
    slice: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedTopic:
    """The expected content of a topic: values, or objects with `key` and `value`."""

    topic: str
    rows: Sequence[Any]
    with_keys: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A case."""

    name: str
    given: Sequence[GivenTopic]
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    topics: Sequence[ExpectedTopic] = ()
    expectations: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fails: str = ""
    """Part of the error with which the update is to fail; empty for one that succeeds."""


def parse_case(document: Any, default_name: str) -> Case:
    """Read a document of a file. Raise CaseError."""
    fields = _mapping(document, "a case", ("name", "given", "expect", "fails"))
    given = _mapping(fields.get("given"), "given")
    expected = _mapping(fields.get("expect", {}), "expect", _EXPECTED)
    fails = fields.get("fails", "")
    if bool(fails) == any(expected.get(part) for part in _EXPECTED):
        raise CaseError(
            "a case has either expect (with tables, topics or expectations) or fails (a part of the error)"
        )
    tables = _mapping(expected.get("tables", {}), "expect.tables")
    topics = _mapping(expected.get("topics", {}), "expect.topics")
    counts = _mapping(expected.get("expectations", {}), "expect.expectations")
    return Case(
        str(fields.get("name", default_name)),
        [_given_topic(name, content) for name, content in given.items()],
        {name: _table_rows(name, content) for name, content in tables.items()},
        [_expected_topic(name, content) for name, content in topics.items()],
        {flow: _counts(flow, content) for flow, content in counts.items()},
        str(fails),
    )


def _table_rows(name: str, value: Any) -> Sequence[Mapping[str, Any]]:
    rows = _list(value, f"the table {name}")
    return [_mapping(row, f"a row of the table {name}") for row in rows]


def _counts(flow: str, value: Any) -> Mapping[str, int]:
    counts = _mapping(value, f"expect.expectations.{flow}")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int):
            raise CaseError(
                f"expect.expectations.{flow}.{name} is the number of rows that failed, not {count!r}"
            )
    return counts


def _given_topic(name: str, content: Any) -> GivenTopic:
    topic = f"the topic {name}"
    if isinstance(content, list):
        content = {"rows": content}
    fields = _mapping(content, topic, _GIVEN)
    if sum(part in fields for part in ("rows", "records", "slice")) != 1:
        raise CaseError(f"{topic} has one of rows, records and slice")
    if "slice" in fields:
        return GivenTopic(name, slice=str(fields["slice"]))
    try:
        if "rows" in fields:
            key = fields.get("key")
            records = [to_record(row, key) for row in _list(fields["rows"], topic)]
        else:
            records = [_record(one, topic) for one in _list(fields["records"], topic)]
        for record in records:
            to_bytes(record.value, "value")
        return GivenTopic(name, tuple(records))
    except (TypeError, ValueError) as error:
        raise CaseError(f"{topic}: {error}") from None


def _record(document: Any, topic: str) -> Record:
    fields = _mapping(document, f"a record of {topic}", _RECORD)
    headers = _mapping(fields.get("headers", {}), f"the headers of {topic}")
    time = fields.get("timestamp")
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    record = Record(
        fields.get("value"),
        fields.get("key"),
        tuple((name, to_bytes(value, "header")) for name, value in headers.items()),
        time,
        fields.get("partition"),
    )
    record.timestamp_ms  # noqa: B018 - raises for a time without a zone
    return record


def _expected_topic(name: str, content: Any) -> ExpectedTopic:
    topic = f"expect.topics.{name}"
    if isinstance(content, list):
        return ExpectedTopic(name, content, with_keys=False)
    fields = _mapping(content, topic, ("rows", "records"))
    if len(fields) != 1:
        raise CaseError(f"{topic} needs either rows or records")
    if "rows" in fields:
        return ExpectedTopic(name, _list(fields["rows"], topic), with_keys=False)
    records = [
        _mapping(one, f"a record of {topic}", ("key", "value"))
        for one in _list(fields["records"], topic)
    ]
    return ExpectedTopic(name, records, with_keys=True)
