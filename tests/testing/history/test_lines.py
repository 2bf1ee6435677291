"""The form on disk."""

from __future__ import annotations

import io
import json

import pytest

from kavka.testing.history import (
    MalformedHistory,
    Promises,
    Recorder,
    Send,
    Type,
    check,
    read_lines,
    write_event,
    write_header,
)
from kavka.testing.history.operations import pair
from support.history.history_notation import history

EVERYTHING = """
    p begin
    p send a ok 0
    p send 1/b ok
    p send c fail
    p send? d
    p commit ok
    q begin
    q abort info
    c assign 0 1
    c seek 0
    c seek 1/
    c subscribe
    c rebalance -0 +1
    c poll 0:a 1/0:b
    c poll info
    s scan 0-2 0:a
"""


def test_events_come_back_as_they_were_written() -> None:
    events = history(EVERYTHING)
    promises = Promises(acks="1", idempotent=False)
    file = io.StringIO()
    write_header(file, promises.as_fields())
    for event in events:
        write_event(file, event)
    header, found = read_lines(file.getvalue().splitlines())
    assert found == events
    assert Promises.from_fields(header) == promises


def test_the_documented_lines_are_a_history() -> None:
    lines = """
        {"history": 1, "acks": "all"}
        {"op": 7, "process": "producer-0", "type": "invoke", "time_ns": 1200, "action": "send", "topic": "t", "partition": 0, "value": "a"}
        {"op": 7, "process": "producer-0", "type": "ok", "time_ns": 3400, "action": "send", "topic": "t", "partition": 0, "value": "a", "offset": 12}
    """  # noqa: E501
    header, events = read_lines(lines.splitlines())
    assert header == {"acks": "all"}
    (operation,) = pair(events)
    assert operation.outcome is Type.OK
    assert isinstance(operation.action, Send)
    assert operation.action.offset == 12


def test_a_negative_offset_is_unknown() -> None:
    send = {"action": "send", "topic": "t", "partition": 0, "value": "a", "offset": -1}
    _, (event,) = read_lines([json.dumps(GOOD | send)])
    assert event.action.offset is None


GOOD = {"op": 0, "process": "p", "type": "ok", "time_ns": 0, "action": "poll", "records": []}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2"),
        ("[]", "line 2"),
        (json.dumps(GOOD | {"type": "done"}), "'done' is not a valid Type"),
        (json.dumps(GOOD | {"action": "pull"}), "'pull' is no action"),
        (json.dumps(GOOD | {"records": [[1, 2]]}), "line 2"),
        (json.dumps({"op": 1}), "KeyError: 'process'"),
        (json.dumps({"history": 1}), "a header must come first"),
    ],
)
def test_a_line_that_is_no_event_is_refused_with_its_number(line: str, says: str) -> None:
    with pytest.raises(MalformedHistory, match=says):
        read_lines([json.dumps(GOOD), line])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p send a ok 0\nq send a ok 1", "'a' is sent twice"),
        ("p begin\np begin", "is inside of"),
        ("p commit ok", "ends no transaction"),
        ("p begin\np commit info\np send a ok 0", "follows the commit"),
    ],
)
def test_what_cannot_be_a_history_is_refused(text: str, says: str) -> None:
    with pytest.raises(MalformedHistory, match=says):
        check(history(text))


def test_a_completion_must_fit_its_invocation() -> None:
    (invoked, completed) = history("p send a ok 0")
    with pytest.raises(MalformedHistory, match="as another one"):
        pair([invoked, type(completed)(0, "q", Type.OK, 1, completed.action)])
    with pytest.raises(MalformedHistory, match="twice"):
        pair([invoked, completed, completed])


def test_an_unknown_promise_is_refused() -> None:
    with pytest.raises(ValueError, match="none of acks"):
        Promises.from_fields({"colour": "blue"})
    with pytest.raises(ValueError, match="acks is all, 1 or 0"):
        Promises.from_fields({"acks": 1})
    with pytest.raises(ValueError, match="idempotent is true or false"):
        Promises.from_fields({"idempotent": "yes"})


def test_a_recorder_keeps_events_and_writes_them() -> None:
    times = iter(range(100, 200))
    sink = io.StringIO()
    recorder = Recorder(lambda: next(times), sink)
    send = history("p send a info")[1].action
    number = recorder.invoke("p", send)
    recorder.complete(number, "p", Type.INFO, send, "timed out")
    recorder.happened("c", history("c assign 0")[0].action)
    assert [event.time_ns for event in recorder.events] == [1, 2, 3]
    assert read_lines(sink.getvalue().splitlines()) == ({}, recorder.events)
