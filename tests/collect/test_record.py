"""The records of collectors are JSON, whatever the events are."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.collect.files.events import EventRules, split_events
from kavka.collect.files.record_encoder import encode_events
from kavka.collect.parsers.rules import ParserRules, parser_of
from kavka.collect.record import LogRecords, metric_value, record_key, time_text


@given(st.binary())
def test_the_message_or_its_raw_bytes_are_the_event(event: bytes) -> None:
    value = LogRecords("h", "/var/log/a", {}).value(event, 5, time_text(0))
    record = json.loads(value)
    kept = b64decode(record["raw"]) if "raw" in record else record["message"].encode()
    assert kept == event
    assert (record["position"], record["time"]) == (5, "1970-01-01T00:00:00.000Z")


@given(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_fields_are_what_the_parser_has_found(fields: dict[str, object]) -> None:
    value = LogRecords("h", "s", {"site": "b"}).value(b"x", 0, "c", time_ms=1, fields=fields)
    record = json.loads(value)
    assert record["fields"] == fields
    assert record["labels"] == {"site": "b"}


def test_half_a_surrogate_pair_in_json_is_kept() -> None:
    text = rb'{"a":"\ud800","time":1e400}'
    parser = parser_of(ParserRules("json"))
    encoded = encode_events(
        split_events(text + b"\n", 0, b"", EventRules(99)), LogRecords("h", "s", {}), parser, 0
    )
    record = json.loads(encoded.values[0])
    assert record["message"] == text.decode()
    assert "error" in record  # 1e400 is no number that JSON can have again
    encoded = encode_events(
        split_events(rb'{"a":"\ud800"}' + b"\n", 0, b"", EventRules(99)),
        LogRecords("h", "s", {}),
        parser,
        0,
    )
    assert json.loads(encoded.values[0])["fields"] == {"a": "\ud800"}


def test_events_without_a_format_stay_in_order_or_go_elsewhere() -> None:
    events = split_events(b'{"n":1}\nbad\n{"n":2}\n', 0, b"", EventRules(99))
    records, parser = LogRecords("h", "s", {}), parser_of(ParserRules("json"))
    kept = [json.loads(value) for value in encode_events(events, records, parser, 0).values]
    assert [record.get("fields") for record in kept] == [{"n": 1}, None, {"n": 2}]
    assert kept[1]["message"] == "bad"
    assert "no JSON" in kept[1]["error"]
    split = encode_events(events, records, parser, 0, separates_errors=True)
    assert (len(split.values), len(split.dead_letters), split.errors) == (2, 1, 1)


def test_a_part_of_a_long_event_says_which() -> None:
    events = split_events(b"x" * 25 + b"\n", 0, b"", EventRules(10))
    parser = parser_of(ParserRules("json"))
    values = encode_events(events, LogRecords("h", "s", {}), parser, 0).values
    assert [json.loads(value)["part"] for value in values] == ["first", "middle", "last"]


@pytest.mark.parametrize(
    ("value", "shown", "error"),
    [(1.5, 1.5, None), (float("nan"), None, "NaN"), (float("-inf"), None, "-Infinity")],
)
def test_samples_that_json_cannot_show(
    value: float, shown: float | None, error: str | None
) -> None:
    record = json.loads(metric_value({"kind": "metric"}, "up", value, {"a": "b"}))
    assert (record["value"], record.get("error"), record["labels"]) == (shown, error, {"a": "b"})


def test_times_far_away_and_names_that_are_no_text() -> None:
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    with pytest.raises(ValueError, match=r"year|no time"):
        time_text(10**18)
    assert record_key("h", "/a\udcff") == b"h:/a?"
    assert json.loads(LogRecords("h", "/a\udcff", {}).value(b"", 0, "c"))["source"] == "/a?"
