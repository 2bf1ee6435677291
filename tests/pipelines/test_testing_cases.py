"""Cases in files: their form, and the differences that they show."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from kavka.pipelines.testing import Record
from kavka.pipelines.testing.cases import CaseError, ExpectedTopic, GivenTopic, parse_case
from kavka.pipelines.testing.rows import differences, sorted_rows

GIVEN = {"events": [{"user": "ann"}]}


def test_rows_records_and_slices_are_given():
    given = {
        "rows": {"rows": [{"user": "ann"}], "key": "user"},
        "records": {
            "records": [
                {
                    "value": {"n": 1},
                    "key": "k",
                    "partition": 1,
                    "headers": {"h": "x"},
                    "timestamp": "2026-11-25T14:00:00+00:00",
                }
            ]
        },
        "slice": {"slice": "a.jsonl"},
    }
    case = parse_case({"given": given, "expect": {"tables": {"t": []}}}, "case 1")
    at = datetime(2026, 11, 25, 14, tzinfo=UTC)
    assert list(case.given) == [
        GivenTopic("rows", (Record({"user": "ann"}, "ann"),)),
        GivenTopic("records", (Record({"n": 1}, "k", (("h", b"x"),), at, 1),)),
        GivenTopic("slice", slice="a.jsonl"),
    ]
    assert (case.name, dict(case.tables)) == ("case 1", {"t": []})


def test_topics_are_expected_as_values_or_with_keys():
    topics = {"a": [{"n": 1}], "b": {"records": [{"key": "k", "value": 1}]}, "c": {"rows": []}}
    case = parse_case({"given": GIVEN, "expect": {"topics": topics}}, "x")
    assert list(case.topics) == [
        ExpectedTopic("a", [{"n": 1}], with_keys=False),
        ExpectedTopic("b", [{"key": "k", "value": 1}], with_keys=True),
        ExpectedTopic("c", [], with_keys=False),
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "a case is not a mapping, but list"),
        ({"given": GIVEN, "expected": {}}, "a case has no 'expected'; it may have name, given"),
        ({"given": GIVEN}, "either expect .* or fails"),
        ({"given": GIVEN, "expect": {"tables": {"t": []}}, "fails": "x"}, "either expect"),
        ({"expect": {"tables": {"t": []}}}, "given is not a mapping"),
        ({"given": {"t": "x"}, "fails": "x"}, "the topic t is not a mapping, but str"),
        ({"given": {"t": {"key": "k"}}, "fails": "x"}, "one of rows, records and slice"),
        ({"given": {"t": {"rows": [], "keys": "k"}}, "fails": "x"}, "has no 'keys'"),
        ({"given": {"t": {"rows": [{}], "key": "k"}}, "fails": "x"}, "has no field 'k'"),
        (
            {"given": {"t": [{"at": datetime(2026, 1, 1)}]}, "fails": "x"},
            "the topic t: a value is bytes, text, None, or JSON",
        ),
        (
            {"given": {"t": {"records": [{"timestamp": "2026-01-01T00:00:00"}]}}, "fails": "x"},
            "no time zone",
        ),
        ({"given": GIVEN, "expect": {"tables": {"t": {}}}}, "the table t is no list"),
        ({"given": GIVEN, "expect": {"expectations": {"f": {"n": "1"}}}}, "rows that failed"),
    ],
)
def test_a_wrong_form_says_what_is_wrong(document, message):
    with pytest.raises(CaseError, match=message):
        parse_case(document, "case 1")


def test_differences_are_the_rows_that_are_missing_and_unexpected():
    found = [{"page": "/a", "n": 1}, {"page": "/b", "n": 2}, {"page": "/b", "n": 2}]
    expected = [{"page": "/b", "n": 2}, {"page": "/a", "n": 3}, {"page": "/b", "n": 2}]
    assert differences(expected, found) == [
        '  missing:    {"n": 3, "page": "/a"}',
        '  unexpected: {"n": 1, "page": "/a"}',
    ]
    assert differences(found, list(reversed(found))) == []


def test_each_expected_row_takes_one_row_that_was_found():
    assert differences([{"n": 1}], [{"n": 1}, {"n": 1}]) == ['  unexpected: {"n": 1}']
    assert differences([{"n": 1}, {"n": 1}], [{"n": 1}]) == ['  missing:    {"n": 1}']
    assert differences([], []) == []


def test_only_named_columns_are_compared_and_unnamed_ones_are_null():
    assert (
        differences([{"n": 1}, {"n": 2, "k": "x"}], [{"n": 1, "k": None}, {"n": 2, "k": "x"}]) == []
    )
    assert differences([{"n": 1}], [{"n": 1, "more": 2}]) == []
    assert (
        len(differences([{"n": 1}, {"n": 2, "k": "x"}], [{"n": 1, "k": "y"}, {"n": 2, "k": "x"}]))
        == 2
    )


def test_values_of_spark_and_of_a_file_are_compared_by_what_they_say():
    at = datetime(2026, 11, 25, 14, tzinfo=UTC)
    found = [{"at": at, "price": Decimal("1.50"), "count": Decimal(3), "raw": b"x", "l": (1, 2)}]
    expected = [{"at": at.replace(tzinfo=None), "price": 1.5, "count": 3, "raw": "x", "l": [1, 2]}]
    assert differences(expected, found) == []


def test_rows_are_sorted_by_their_columns_with_none_first():
    rows: list[Any] = [
        {"k": "b", "n": 1},
        {"k": None, "n": 9},
        {"k": "a", "n": 2},
        {"k": "a", "n": None},
    ]
    assert [tuple(row.values()) for row in sorted_rows(rows)] == [
        (None, 9), ("a", None), ("a", 2), ("b", 1),
    ]  # fmt: skip
