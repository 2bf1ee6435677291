"""Events of log files: lines, lines together, parts of what is too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.collect.files.events import EventRules, Events, split_events

LINES = EventRules(100)
TRACES = EventRules(100, re.compile(rb"^\d"))


def test_lines_have_the_positions_of_their_first_bytes() -> None:
    result = split_events(b"ab\nc\r\n\nrest", 10, b"x\n", LINES)
    assert result == Events([b"ab", b"c", b""], [10, 13, 16], 17, {})


def test_a_line_without_line_end_waits_until_it_is_final() -> None:
    assert split_events(b"ab", 0, b"", LINES) == Events([], [], 0, {})
    assert split_events(b"ab", 0, b"", LINES, is_final=True) == Events([b"ab"], [0], 2, {})


def test_the_hole_that_a_truncation_leaves_is_no_part_of_a_line() -> None:
    """A writer that does not append goes on where it was: everything before is a hole, however long."""
    assert split_events(b"\0\0\0ab\nc\n", 0, b"", LINES) == Events([b"ab", b"c"], [3, 6], 8, {})
    hole = split_events(bytes(1000), 0, b"", LINES)
    assert hole == Events([], [], 1000, {})
    assert split_events(b"\0ab\n\0c\n", 1000, bytes(1000), LINES) == Events(
        [b"ab", b"\0c"], [1001, 1004], 1007, {}
    )


def test_a_long_line_is_cut_into_parts_wherever_the_reads_end() -> None:
    line = b"0123456789" * 25
    result = split_events(line, 0, b"", LINES)
    assert [len(event) for event in result.events] == [100, 100]
    assert result.parts == {0: "first", 1: "middle"}
    rest = split_events(line[200:] + b"\nnext\n", 200, line[100:200], LINES)
    assert rest == Events([line[200:], b"next"], [200, 251], 256, {0: "last"})
    whole = split_events(line + b"\nnext\n", 0, b"", LINES)
    assert whole.parts == {0: "first", 1: "middle", 2: "last"}
    assert whole.events == [line[:100], line[100:200], line[200:], b"next"]
    assert whole.positions == [0, 100, 200, 251]


def test_lines_belong_to_the_event_that_started_before_them() -> None:
    data = b"1 failed\n  at a\n  at b\n2 fine\n3 open\n  at c\n"
    result = split_events(data, 0, b"", TRACES)
    assert result.events == [b"1 failed\n  at a\n  at b", b"2 fine"]
    assert result.positions == [0, 23]
    assert data[result.end :] == b"3 open\n  at c\n"
    flushed = split_events(
        data[result.end :], result.end, data[: result.end], TRACES, is_flush=True
    )
    assert flushed.events == [b"3 open\n  at c"]


def test_lines_before_the_first_event_are_one_themselves() -> None:
    assert split_events(b"  at x\n1 a\n2 b\n", 0, b"", TRACES).events == [b"  at x", b"1 a"]


def test_an_event_that_grows_too_long_is_sent_in_parts() -> None:
    data = b"1 begins\n" + b"  at somewhere\n" * 20
    result = split_events(data, 0, b"", TRACES)
    assert result.end == len(data)
    assert b"".join(result.events) == data[:-1]
    assert result.parts[0] == "first"


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))),
    st.lists(st.integers(1, 60), min_size=1),
)
def test_however_the_reads_are_cut_the_events_are_the_same(
    lines: list[bytes], sizes: list[int]
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    position, events, turn = 0, [], 0
    while position < len(data):
        size = sizes[turn % len(sizes)] + 40  # a read is larger than the longest event
        chunk = data[position : position + size]
        result = split_events(chunk, position, data[:position], EventRules(40))
        events += result.events
        assert result.end > position
        position, turn = result.end, turn + 1
    # NUL at the file's start is the hole of a truncation.
    assert events == [line if number else line.lstrip(b"\0") for number, line in enumerate(lines)]


@pytest.mark.parametrize("is_flush", [False, True])
def test_nothing_gives_nothing(is_flush: bool) -> None:
    assert split_events(b"", 7, b"\n", TRACES, is_flush=is_flush) == Events([], [], 7, {})
