"""Decisions of the console without a cluster: formats, windows, plans, rates, findings."""

from __future__ import annotations

from datetime import time

import pytest

from kavka.client.admin.offset_resets import Adjustment, PlannedReset, moved_into_log
from kavka.client.consumer.batches import ConsumerRecord
from kavka.console import formats
from kavka.console.access.exposure import Exposure, NotLoopback, checked_exposure, is_loopback_name
from kavka.console.alerts.rules import Window
from kavka.console.alerts.views import window_view
from kavka.console.chinese import CHINESE_SENTENCES
from kavka.console.failures import Refused
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sampler import RateHistory
from kavka.console.search import forward_windows, newest_windows
from kavka.console.sentences import say
from kavka.console.views.messages import Filter, Matcher, positions_of, positions_text, steps_of
from kavka.console.views.paging import paged
from kavka.console.views.resets import planned_offset, totals
from kavka.ids import TopicPartition

NONE = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, NONE), (-1, NONE), (0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"),
     (999_499, "999 kB"), (999_950, "1.00 MB"), (5 * 10**15, "5.00 PB"), (5 * 10**18, "5000 PB")],
)  # fmt: skip
def test_sizes(size: int | None, text: str) -> None:
    assert formats.size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, NONE), (0, "0 s"), (0.44, "0.4 s"), (59.6, "1 min"), (125, "2 min 5 s"), (3600, "1 h"),
     (90_000, "1 d 1 h")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert formats.seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 秒"), (60, "1 分钟"), (125, "2 分钟 5 秒"), (3600, "1 小时"), (3720, "1 小时 2 分钟"),
     (86_400, "1 天"), (273_600, "3 天 4 小时"), (None, NONE)],
)  # fmt: skip
def test_durations_in_chinese(seconds: float | None, text: str) -> None:
    assert formats.seconds_text(seconds).translated(CHINESE_SENTENCES) == text
    behind = say("Flow {name} is {lag} behind.", name="f", lag=formats.seconds_text(seconds))
    assert text in behind.translated(CHINESE_SENTENCES)


def test_days_of_maintenance_in_chinese() -> None:
    window = Window("w", (5, 6), time(22), time(2))
    when = window_view(window, 0).when
    assert when == "Saturday, Sunday 22:00 to 02:00 UTC"
    assert when.translated(CHINESE_SENTENCES).startswith("星期六、星期日")


@pytest.mark.parametrize(
    ("rate", "text"), [(None, NONE), (0, "0/s"), (0.44, "0.4/s"), (12_345.6, "12,346/s")]
)
def test_rates(rate: float | None, text: str) -> None:
    assert formats.rate_text(rate) == text


def test_times_that_no_calendar_has_are_numbers() -> None:
    assert formats.time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert formats.time_text(2**62) == str(2**62)
    assert formats.time_text(-1) == NONE


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b'{"a":[1]}', "json", '{\n  "a": [\n    1\n  ]\n}'),
        (b'{"a":', "text", '{"a":'),
        (b"12", "text", "12"),
        ("käse\n".encode(), "text", "käse\n"),
        (b"\x1b[31m", "binary", formats.hex_dump(b"\x1b[31m")),
        (b"\xff", "binary", formats.hex_dump(b"\xff")),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, kind: str, text: str) -> None:
    assert formats.shown(data, 200_000)[:2] == (kind, text)


def test_a_text_is_cut_between_characters() -> None:
    assert formats.shown("ää".encode(), 3) == ("text", "ä", False)
    assert formats.one_line(b"a\n b" + b"x" * 300, 5) == "a bx…"


def test_a_sparkline_keeps_gaps() -> None:
    assert formats.sparkline([0.0, None, 2.0, 2.0], 30, 24) == "M0.0 22.5M20.0 1.5L30.0 1.5"
    assert formats.sparkline([]) == ""


def test_pages_of_a_list() -> None:
    rows, paging = paged(range(95), 9, 50)
    assert (rows[0], paging.page, paging.first, paging.last) == (50, 2, 51, 95)
    assert paged([], 1, 50)[1].first == 0


def test_the_newest_are_a_window_at_the_end() -> None:
    starts, ends = {0: 5, 1: 0}, {0: 100, 1: 3}
    assert [(w.first, w.stop) for w in newest_windows(starts, ends, {}, 10)] == [(90, 100), (0, 3)]
    before = newest_windows(starts, ends, {0: 12, 1: 99}, 10)
    assert [(w.first, w.stop) for w in before] == [(5, 12), (0, 3)]
    forward = forward_windows(starts, ends, {0: 1, 1: 7})
    assert [(w.first, w.stop) for w in forward] == [(5, 100), (3, 3)]


def record(key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]):
    return ConsumerRecord("t", 0, 0, 0, 0, key, value, tuple(headers))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), True),
        (Filter(key="AB"), True),
        (Filter(key="x"), False),
        (Filter(text="ab"), True),
        (Filter(text="hello"), True),
        (Filter(text="one"), True),
        (Filter(text="two"), False),
        (Filter(header="H"), True),
        (Filter(header="h=ON"), True),
        (Filter(header="h=two"), False),
        (Filter(header="null="), True),
        (Filter(key="ab", text="hello", header="none"), False),
    ],
)
def test_filters(wanted: Filter, found: bool) -> None:
    kept = record(b"xAb"[1:], b"Say Hello", ("h", b"one"), ("null", None))
    assert Matcher(wanted)(kept) is found
    assert Matcher(wanted)(record(None, None)) is wanted.is_empty


def test_positions_are_read_as_they_are_written() -> None:
    assert positions_of(positions_text({3: 7, 0: 12})) == {0: 12, 3: 7}
    assert steps_of({0: 1}, {}) == ("0:1", "", "")
    many = dict.fromkeys(range(10_000), 10**9)
    assert steps_of(many, {}) == (
        "",
        "",
        "There are too many partitions to go on in all of them: choose one.",
    )
    for wrong in ("", "1", "1:", ":1", "a:1", "1:-2"):
        with pytest.raises(ValueError, match="no position"):
            positions_of(wrong)


def test_rates_have_gaps_and_no_topic_shrinks() -> None:
    history = RateHistory()
    history.add(0, {"a": 0, "b": 10})
    history.add(10, {"a": 100, "b": 10})
    history.add(20, None)
    history.add(30, {"a": 300, "b": 20, "c": 5})
    history.add(40, {"a": 0, "b": 30, "c": 25})
    assert [rate.per_second for rate in history.rates("a")] == [10, None, None, None]
    assert [rate.per_second for rate in history.rates("c")] == [None, None, None, 2]
    assert [rate.per_second for rate in history.rates()] == [10, None, None, 3]
    assert history.latest("b") == 1
    history.add(2000, {"a": 1})
    assert history.rates() == []


def test_a_planned_offset_is_one_that_the_log_has() -> None:
    key = TopicPartition("t", 0)
    plans = [moved_into_log(key, wanted, 10, 50) for wanted in (5, 30, 99)]
    plans.append(PlannedReset(key, -1, 50, 10, 50, Adjustment.NO_LATER_RECORD))
    rows = [planned_offset(plan, 20) for plan in plans]
    assert [(row.new, row.change, bool(row.note)) for row in rows] == [
        (10, -10, True),
        (30, 10, False),
        (50, 30, True),
        (50, 30, True),
    ]
    assert totals(rows) == (10, 70)
    assert planned_offset(plans[1], None).change is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_is_listened_on(host: str) -> None:
    assert is_loopback_name(checked_exposure(host, Exposure(), has_login=False))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "host.example", ""])
def test_all_else_is_not(host: str) -> None:
    assert not is_loopback_name(host)
    with pytest.raises(NotLoopback, match="needs a login"):
        checked_exposure(host, Exposure(), has_login=False)


def test_parameters_are_checked_when_they_are_read() -> None:
    declared = (
        Parameter("n", "integer", "", "3", minimum=1),
        Parameter("f", "flag", ""),
        Parameter("t", "time", ""),
    )
    assert Arguments(declared, {}).number("n") == 3
    assert Arguments(declared, {"n": 5, "f": True, "unknown": "x"}).flag("f")
    assert Arguments(declared, {"t": "1970-01-01T01:00+01:00"}).time_ms("t") == 0
    assert Arguments(declared, {"t": "1234"}).time_ms("t") == 1234
    for given, read in (
        ({"n": "0"}, lambda a: a.integer("n")),
        ({"n": "1e3"}, lambda a: a.integer("n")),
        ({"f": "maybe"}, lambda a: a.flag("f")),
        ({"t": "1969-12-31"}, lambda a: a.time_ms("t")),
        ({"t": "9" * 5000}, lambda a: a.time_ms("t")),
        ({"t": "9" * 19}, lambda a: a.time_ms("t")),
        ({"n": "9" * 20_001}, lambda a: a.text("n")),
    ):
        with pytest.raises(Refused):
            read(Arguments(declared, given))
