"""Tests of {{name}}: `kavka pipelines test`, or pytest."""

from datetime import UTC, datetime, timedelta

from kavka.client.dead_letters import dead_letter_of
from kavka.pipelines.testing import Pipeline, Record

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BROWSER, CRAWLER = "Mozilla/5.0 (X11; Linux x86_64)", "GreedySpider/0.9"


def line(
    after_s: float, visitor: str, request: str, status: int = 200, agent: str = BROWSER
) -> str:
    """Return a line in combined log format."""
    time = f"{NOON + timedelta(seconds=after_s):%d/%b/%Y:%H:%M:%S} +0000"
    return f'{visitor} - - [{time}] "{request} HTTP/1.1" {status} 100 "-" "{agent}"'


def collected(after_s: float, text: object) -> Record:
    """Return a record that was collected so many seconds after noon."""
    return Record(text, timestamp=NOON + timedelta(seconds=after_s))


def access_log() -> list[Record]:
    """Return what is fed; the last line comes two hours later, by which all windows before it are over."""
    by_collector = {"time": "2026-03-02T12:01:05.000Z", "message": line(65, "ann", "POST /b")}
    return [
        collected(1, line(0, "ann", "GET /a?x=1")),
        collected(5, line(5, "ann", "GET /search?q=Spark+sql")),
        *(collected(61, line(60 + n / 10, "thief", "POST /login", 401)) for n in range(150)),
        *(collected(62, line(n, "spider", f"GET /private/{n}", agent=CRAWLER)) for n in range(3)),
        collected(66, by_collector),
        collected(67, "no line of a log"),
        collected(700, line(10, "late", "GET /a")),
        collected(7200, line(7200, "end", "GET /a")),
    ]


def test_each_line_is_counted_once_and_reaches_its_topics(pipeline: Pipeline) -> None:
    pipeline.feed("{{name}}-access", access_log())
    updated = pipeline.run()

    assert updated.expectations("events")["well-formed line"].failed == 1
    assert updated.expectations("events")["on time"].failed == 1
    check_views(pipeline)
    check_malformed_lines(pipeline)
    check_alerts_and_limits(pipeline)
    check_sessions_and_feed(pipeline)


def check_views(pipeline: Pipeline) -> None:
    """Late lines are counted in their minutes."""
    report = pipeline.table("daily_report", "requests", "crawler_requests", "searches", "late")
    assert report == [{"requests": 158, "crawler_requests": 3, "searches": 1, "late": 1}]
    minutes = pipeline.table("requests_by_minute", "minute", "requests", "errors", "late")
    assert [tuple(row.values())[1:] for row in minutes] == [(6, 0, 1), (151, 150, 0), (1, 0, 0)]
    [search] = pipeline.table("top_searches", "search", "searches", "rank")
    assert search == {"search": "spark sql", "searches": 1, "rank": 1}
    first = [row["page"] for row in pipeline.table("top_pages") if row["rank"] == 1]
    assert first == ["/login", "/login", "/a", "/a"]


def check_malformed_lines(pipeline: Pipeline) -> None:
    """They are as they came, with the reason and where they are from."""
    [bad] = pipeline.topic("{{name}}-quarantine")
    assert bad.text == "no line of a log"
    why = dead_letter_of(bad.headers)
    assert why.reason == "parse not in combined log format"
    assert (why.topic, why.partition, why.offset) == ("{{name}}-access", 0, 156)


def check_alerts_and_limits(pipeline: Pipeline) -> None:
    """Compare: a minute has an alert when it is over, a limit as soon as a client is above it."""
    alerts = [record.json for record in pipeline.topic("{{name}}-alerts")]
    assert sorted((alert["kind"], alert["visitor"], alert["reason"]) for alert in alerts) == [
        ("abuser", "thief", "150 requests in a minute"),
        ("crawler", "spider", "3 requests that robots.txt forbids"),
    ]
    [limit] = pipeline.topic("{{name}}-limits")
    assert limit.key_text == "thief"
    assert limit.json == {
        "client": "thief",
        "minute": "2026-03-02T12:01:00.000Z",
        "limit": 100,
        "until": "2026-03-02T12:12:00.000Z",
    }


def check_sessions_and_feed(pipeline: Pipeline) -> None:
    """Sessions leave late lines out, the feed marks them, in the order of the log."""
    sessions = {record.key_text: record.json for record in pipeline.topic("{{name}}-sessions")}
    assert set(sessions) == {"ann", "spider", "thief"}
    ann = sessions["ann"]
    assert (ann["requests"], ann["searches"], ann["exit_page"]) == (3, 1, "/b")
    feed = [record.json for record in pipeline.topic("{{name}}-feed")]
    assert [(one["actor"], one["action"], one["page"], one["late"]) for one in feed] == [
        ("ann", "view", "/a", False),
        ("ann", "search", "/search", False),
        ("ann", "submit", "/b", False),
        ("late", "view", "/a", True),
        ("end", "view", "/a", False),
    ]
