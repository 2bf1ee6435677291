"""The activity pipeline on small frames."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kavka.client.dead_letters import dead_letter_of
from kavka.demo.line import combined
from kavka.pipelines import activity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

TIME = "%d/%b/%Y:%H:%M:%S %z"
NOON = datetime(2025, 3, 3, 12, tzinfo=UTC)
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0)"


def line(after: timedelta = timedelta(), **changes: Any) -> bytes:
    facts: dict[str, Any] = {
        "visitor": "10.0.0.1", "request": "GET /a", "status": 200, "size": 10, "referrer": "-", "agent": BROWSER,
    }  # fmt: skip
    event_ms = int((NOON + after).timestamp() * 1000)
    return combined(event_ms=event_ms, **(facts | changes)).encode()


def records(spark: SparkSession, *values: bytes | None, arrived: datetime = NOON) -> DataFrame:
    rows = [(b"k", value, "access", 0, offset, arrived) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, SCHEMA)


def requests(spark: SparkSession, *values: bytes) -> DataFrame:
    """Return the events of lines, each collected at its own time."""
    rows = [
        (
            b"k",
            value,
            "access",
            0,
            offset,
            datetime.strptime(value.decode().split("[")[1][:26], TIME),
        )
        for offset, value in enumerate(values)
    ]
    return activity.on_time(activity.events(activity.parse(spark.createDataFrame(rows, SCHEMA))))


def parsed_one(spark: SparkSession, value: bytes | None) -> Row:
    row = activity.parse(records(spark, value)).first()
    assert row is not None
    return row


def naive(time: datetime) -> datetime:
    """A time as `collect` gives it: in the time zone of this machine, without saying so."""
    return time.astimezone().replace(tzinfo=None)


def test_a_line_becomes_its_fields(spark: SparkSession) -> None:
    row = parsed_one(
        spark,
        b'1.2.3.4 - ann [03/Mar/2025:13:00:05 +0100] "GET /search?p=2&q=caf%C3%A9+au HTTP/1.1" '
        b'200 77 "http://x/\\"y\\"" "Agent \\"7\\""',
    )
    assert row.reason is None
    assert row.event_time == naive(NOON + timedelta(seconds=5))
    assert (row.visitor, row.user, row.method, row.page) == ("1.2.3.4", "ann", "GET", "/search")
    assert (row.search, row.status, row.bytes) == ("caf\u00e9 au", 200, 77)
    assert (row.referrer, row.agent) == ('http://x/\\"y\\"', 'Agent \\"7\\"')


def test_dashes_become_null(spark: SparkSession) -> None:
    row = parsed_one(spark, b'h - - [03/Mar/2025:12:00:00 +0000] "GET / HTTP/1.0" 304 - "-" "-"')
    assert (row.reason, row.user, row.bytes, row.referrer, row.agent) == (None,) * 5


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "empty line"),
        (b"", "empty line"),
        (b"\xff\xfe" + line(), "not UTF-8"),
        (line()[:-1], "not in combined log format"),
        (line().replace(b" 200 ", b" 999 "), "not in combined log format"),
        (line().replace(b"03/Mar", b"31/Feb"), "no such time"),
        (line(timedelta(minutes=2)), "time in the future"),
        (
            b"h\x01-\x0110/Oct/2000:13:55:36 +0000\x01GET / HTTP/1.1\x01abc\x015\x01-\x01a",
            "not in combined log format",
        ),
        (line().replace(b"GET /", b"GET /" + b"a" * 100_000 + b'"'), "not in combined log format"),
        (line(request="GET"), "request is not METHOD PATH PROTOCOL"),
    ],
)
def test_a_malformed_line_says_why(spark: SparkSession, value: bytes | None, reason: str) -> None:
    row = parsed_one(spark, value)
    assert (row.reason, row.event_time, row.page, row.value) == (reason, None, None, value)


@pytest.mark.parametrize(
    ("value", "reason", "page"),
    [
        ({"message": line(request="GET /b").decode(), "kind": "log"}, None, "/b"),
        ({"message": "\ufffd", "raw": "/w=="}, "not UTF-8", None),
        ({"message": ""}, "empty line", None),
        ({"text": "a"}, "not in combined log format", None),
    ],
)
def test_a_record_of_the_collector_is_its_message(
    spark: SparkSession, value: dict[str, str], reason: str | None, page: str | None
) -> None:
    row = parsed_one(spark, json.dumps(value).encode())
    assert (row.reason, row.page) == (reason, page)


@pytest.mark.parametrize(
    ("path", "search"),
    [
        ("/search?p=2&q=a+b#x", "a b"),
        ("/shop/find?query=a%26b", "a&b"),
        ("/?search=a&q=b", "a"),
        ("/search?q=", None),
        ("/search?seq=1", None),
        ("/q=a", None),
        ("/search?q=%zz", None),
    ],
)
def test_searches_are_parameters_of_a_query_string(
    spark: SparkSession, path: str, search: str | None
) -> None:
    row = parsed_one(spark, line(request=f"GET {path}"))
    assert (row.reason, row.search) == (None, search)


def test_every_record_is_an_event_or_a_dead_letter(spark: SparkSession) -> None:
    parsed = activity.parse(records(spark, line(), b"junk", None, line(), b"\xff"))
    assert activity.events(parsed).count() == 2
    letters = activity.malformed(parsed).collect()
    assert [bytes(letter.value) if letter.value is not None else None for letter in letters] == [
        b"junk", None, b"\xff",
    ]  # fmt: skip
    why = dead_letter_of((header.key, bytes(header.value)) for header in letters[0].headers)
    assert why.reason == "parse not in combined log format"
    assert (why.topic, why.partition, why.offset) == ("access", 0, 1)


def test_events_carry_date_and_hour_of_event_time(spark: SparkSession) -> None:
    row = activity.events(activity.parse(records(spark, line(timedelta(hours=-13))))).first()
    assert row is not None
    assert (str(row.date), row.hour) == ("2025-03-02", 23)


def test_a_line_collected_too_late_is_kept_but_not_counted(spark: SparkSession) -> None:
    values = [line(-timedelta(minutes=10)), line(-timedelta(minutes=10, seconds=1))]
    events = activity.events(activity.parse(records(spark, *values)))
    assert [row.late for row in events.sort("offset").collect()] == [False, True]
    assert activity.on_time(events).count() == 1


def test_each_event_is_counted_in_two_sliding_windows(spark: SparkSession) -> None:
    values = [line(), line(timedelta(minutes=4), status=500), line(request="GET /b?x=1")]
    rows = activity.page_counts(requests(spark, *values)).sort("window_start", "page").collect()
    assert [(row.window_start, row.page, row.requests, row.bytes, row.errors) for row in rows] == [
        (naive(NOON - timedelta(minutes=5)), "/a", 2, 20, 1),
        (naive(NOON - timedelta(minutes=5)), "/b", 1, 10, 0),
        (naive(NOON), "/a", 2, 20, 1),
        (naive(NOON), "/b", 1, 10, 0),
    ]
    assert sum(row.requests for row in rows) == len(values) * activity.WINDOWS_PER_EVENT


def test_top_pages_rank_by_requests_then_name(spark: SparkSession) -> None:
    values = [line(request=f"GET /{page}") for page in "abbccd"]
    tops = activity.top_pages(activity.page_counts(requests(spark, *values)), 3)
    rows = tops.where(f"window_start = timestamp '{NOON:%Y-%m-%d %H:%M:%S}'").sort("rank").collect()
    assert [(row.rank, row.page, row.requests) for row in rows] == [
        (1, "/b", 2), (2, "/c", 2), (3, "/a", 1),
    ]  # fmt: skip


def test_a_session_ends_after_half_an_hour_of_silence(spark: SparkSession) -> None:
    values = [
        line(request="GET /in"),
        line(timedelta(minutes=29), request="GET /search?q=x"),
        line(timedelta(minutes=58), request="GET /out"),
        line(timedelta(minutes=88, seconds=1), request="GET /again"),
        line(visitor="10.0.0.2"),
    ]
    found = activity.sessions(requests(spark, *values)).sort("visitor", "start").collect()
    assert [(row.visitor, row.requests, row.searches, row.entry_page, row.exit_page) for row in found] == [
        ("10.0.0.1", 3, 1, "/in", "/out"),
        ("10.0.0.1", 1, 0, "/again", "/again"),
        ("10.0.0.2", 1, 0, "/a", "/a"),
    ]  # fmt: skip
    assert found[0].end - found[0].start == timedelta(minutes=58)


def test_alerts_name_fast_crawlers_rude_crawlers_and_abusers(spark: SparkSession) -> None:
    values = [
        *[line(visitor="fast", agent="GoodBot/1")] * 31,
        *[line(visitor="slow", agent="GoodBot/1")] * 30,
        line(visitor="rude", agent="Spider", request="GET /private/1"),
        line(visitor="staff", request="GET /private/1"),
        *[line(visitor="thief")] * 61,
        *[line(visitor="busy")] * 60,
        *[line(visitor="silent", agent="-")] * 61,
    ]
    rows = activity.crawler_alerts(requests(spark, *values)).sort("visitor").collect()
    assert [(row.visitor, row.kind, row.reason) for row in rows] == [
        ("fast", "crawler", "31 requests in a minute"),
        ("rude", "crawler", "1 requests that robots.txt forbids"),
        ("silent", "abuser", "61 requests in a minute"),
        ("thief", "abuser", "61 requests in a minute"),
    ]


def test_rows_become_records_with_key_and_json(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("v", 1, None)], "visitor string, n int, gone string")
    record = activity.as_records(rows, "visitor").first()
    assert record is not None
    assert (bytes(record.key), bytes(record.value)) == (b"v", b'{"visitor":"v","n":1}')


def test_the_feed_is_what_people_did_with_success(spark: SparkSession) -> None:
    values = [
        line(request="GET /a"),
        line(request="GET /search?q=x", status=304),
        line(request="POST /b", visitor="10.0.0.2"),
        line(request="HEAD /a"),
        line(status=404),
        line(status=301),
        line(agent="GoodBot/1"),
    ]
    rows = activity.feed(activity.events(activity.parse(records(spark, *values)))).collect()
    assert [(row.actor, row.action, row.page, row.search, row.late) for row in rows] == [
        ("10.0.0.1", "view", "/a", None, False),
        ("10.0.0.1", "search", "/search", "x", False),
        ("10.0.0.2", "submit", "/b", None, False),
    ]
