"""Records that tests feed, and slices of topics as files."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.pipelines.testing import Record
from kavka.pipelines.testing.records import (
    SliceError,
    from_line,
    read_slice,
    to_bytes,
    to_line,
    to_record,
)

CONTENT = st.none() | st.binary() | st.text().map(str.encode)
RECORDS = st.builds(
    Record,
    value=CONTENT,
    key=CONTENT,
    headers=st.lists(st.tuples(st.text(), CONTENT), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**53),
    partition=st.integers(0, 99),
    offset=st.integers(0, 2**53),
    topic=st.text("abc", min_size=1),
)


@given(RECORDS)
def test_a_record_is_the_same_after_its_line(record):
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line) == record


def test_text_is_readable_in_a_slice_and_other_bytes_are_base64():
    line = json.loads(to_line(Record("grüß", b"\xff", topic="t", partition=0, offset=1)))
    assert line["value"] == "grüß"
    assert line["key_base64"] == "/w=="


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ('{"user": "ann"}', "the fields user; rows alone are given to feed"),
        ('{"key": "a"}', "it has no value"),
        ('{"value_base64": "?"}', "value_base64 is no base64"),
        ('{"value": "a", "partition": "0"}', "partition is no whole number: '0'"),
        ('{"value": "a", "timestamp": true}', "timestamp is no whole number"),
    ],
)
def test_what_is_no_record_is_refused(line, message):
    with pytest.raises(SliceError, match=message):
        from_line(line)


def test_a_slice_names_the_line_that_is_wrong(tmp_path):
    file = tmp_path / "slice.jsonl"
    file.write_text('{"topic": "t", "value": "a"}\n\n{"value": "b"}\n')
    assert [(one.topic, one.value) for one in read_slice(file, "u")] == [("u", b"a"), ("u", b"b")]
    with pytest.raises(SliceError, match=r"slice\.jsonl:3: no topic"):
        list(read_slice(file))


def test_rows_become_json_and_a_field_the_key():
    assert to_record({"user": "ann", "n": 1}, "user") == Record({"user": "ann", "n": 1}, "ann")
    assert to_record({"n": 1}, "n").key == "1"
    assert to_bytes({"user": "ann", "n": 1}, "value") == b'{"user":"ann","n":1}'
    assert to_bytes("text", "value") == b"text"
    assert to_bytes(None, "value") is None
    given_record = Record("a", "k")
    assert to_record(given_record, "user") is given_record


@pytest.mark.parametrize("row", ["text", {"name": "ann"}])
def test_a_row_without_the_key_is_refused(row):
    with pytest.raises(ValueError, match="has no field 'user'"):
        to_record(row, "user")


def test_a_value_that_is_no_json_is_refused():
    with pytest.raises(TypeError, match="a value is bytes, text, None, or JSON"):
        to_bytes({"at": object()}, "value")


def test_timestamps_are_milliseconds_or_times_with_a_zone():
    assert Record(timestamp=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).timestamp_ms == 1000
    assert Record(timestamp=7).timestamp_ms == 7
    with pytest.raises(ValueError, match="no time zone"):
        _ = Record(timestamp=datetime(2026, 1, 1)).timestamp_ms


def test_a_found_record_shows_text_and_json():
    record = Record(b'{"a": 1}', b"k")
    assert (record.text, record.json, record.key_text) == ('{"a": 1}', {"a": 1}, "k")
    assert (Record().text, Record().json, Record().key_text) == (None, None, None)
