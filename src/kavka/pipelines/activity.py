"""The activity pipeline: from lines of an access log to counts, sessions, alerts, limits, feeds and dead letters.

    records ── parse ──┬─ malformed ─────────────────────► topic of dead letters
                       └─ events ─┬──────────────────────► table by date and hour ─ page_counts ─ top_pages
                                  ├─ feed ───────────────► topic
                                  ├─ limits ─────────────► topic, as soon as a client is above
                                  └─ on_time ─┬─ sessions ► topic
                                              └─ crawler_alerts ► topic

Every function takes and gives a data frame, so it runs on batches and on streams. *records* are rows of the Kafka
source. `value` is one line in combined log format, or a record of `kavka collect files`, which has the line in
`message`; `timestamp` is the time when the line was collected. Event time is the time in the line. A line is *late*
when it was collected more than `ALLOWED_LATENESS` after its event time: that is decided from the record alone, so that
two runs agree, and Spark's watermark is a little longer and drops nothing that is on time.

The template `activity` of `kavka pipelines init` is a project of these functions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kavka.pipelines.rate_limits import COUNTS, count_requests
from kavka.spark.dead_letters import dead_letters, failure

ALLOWED_LATENESS = "10 minutes"
"""Maximum delay between event time and collection for a line to be counted in windows."""
MAX_AHEAD = "1 minute"
"""Maximum of an event time beyond the collection: a later one would move the watermark past all others."""
WATERMARK = "12 minutes"
"""Duration for which windows stay open: the allowed lateness, and a margin for the disorder between partitions."""
WINDOW, SLIDE = "10 minutes", "5 minutes"
"""The windows of `page_counts`; each event is in WINDOWS_PER_EVENT of them."""
WINDOWS_PER_EVENT = 2
SESSION_GAP = "30 minutes"
"""Time without a request after which a visitor begins a new session."""
CRAWLER_REQUESTS_PER_MINUTE = 30
"""A crawler that asks for more than this is too fast."""
VISITOR_REQUESTS_PER_MINUTE = 60
"""Requests per minute above which a visitor that is not a declared crawler is an abuser."""
DISALLOWED_PREFIX = "/private/"
"""Path prefix that robots.txt forbids to crawlers."""
LIMIT_REQUESTS_PER_MINUTE = 100
"""A client with more requests in a minute of event time is to be limited."""
LIMITED_FOR = "10 minutes"
"""Duration of a limit, from the end of the minute on."""
SEARCH_PARAMETERS = "q|query|search"
"""Names of parameters in a query string that hold a search."""

_PART = "\u0001"
_COMBINED = (
    r'^(\S+) \S+ (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*+)" ([1-5]\d\d) (\d+|-) '
    r'"((?:[^"\\]|\\.)*+)" "((?:[^"\\]|\\.)*+)"$'
)
_PARTS = _PART.join(f"${group}" for group in range(1, 9))
_REQUEST = r"^([A-Z]+) (\S+) HTTP/\d(?:\.\d)?$"
_CRAWLER = r"(?i)bot|crawl|spider|slurp|feed|archiver|fetcher"
_FIELDS = (
    "event_time", "visitor", "user", "method", "path", "page", "search", "status", "bytes", "referrer", "agent",
)  # fmt: skip
_MINUTE = "1 minute"
_LIMIT_GROUPS = 4
"""Groups of clients whose requests are counted together: a call of Python for each, not for each client."""
_LIMIT_ROWS = T.StructType(
    [T.StructField("client", T.StringType()), T.StructField("minute", T.LongType())]
)


def parse(records: DataFrame) -> DataFrame:
    """Return one row per record: the fields of its line, or `reason` saying why it is malformed.

    `key`, `value`, `topic`, `partition`, `offset` stay; `arrived` is the record's timestamp. Where `reason` is
    not null the fields of the line are null.
    """
    text, valid = _line()
    # Possessive quantifiers: Java would recurse for each character of a long field, and its stack has an end.
    # One run of the regular expression per line: matched groups become a list, anything else a list of another length.
    parts = F.split(F.regexp_replace(text, _COMBINED, _PARTS), _PART)
    rows = records.select(
        "key", "value", "topic", "partition", "offset", F.col("timestamp").alias("arrived"),
        text.alias("text"), valid.alias("valid"), parts.alias("parts"),
    )  # fmt: skip
    rows = rows.withColumn("time", F.try_to_timestamp(_part(2), F.lit("dd/MMM/yyyy:HH:mm:ss Z")))
    rows = rows.withColumn("reason", _reason())
    return rows.select(
        "key", "value", "topic", "partition", "offset", "arrived", "reason", *_fields()
    )


def _line() -> tuple[Column, Column]:
    """Return the line of a record, null where it is not UTF-8, and whether it is UTF-8."""
    value = F.col("value").cast("string")
    is_text = F.coalesce(F.is_valid_utf8(value), F.lit(False))
    # A line begins with a host. The collector's records are objects; `raw` is a line that was not UTF-8.
    is_record = is_text & value.startswith("{")
    in_record = F.coalesce(F.get_json_object(value, "$.message"), value)
    text = F.when(is_record, in_record).otherwise(value)
    valid = is_text & ~(is_record & F.get_json_object(value, "$.raw").isNotNull())
    return F.when(valid, text), valid


def _part(index: int) -> Column:
    """Return one group of the line; null when the line did not match."""
    parts = F.col("parts")
    return F.when(F.size(parts) == 8, F.get(parts, F.lit(index)))


def _reason() -> Column:
    """Return the first thing that is wrong with a line, or null."""
    return (
        F.when(F.col("value").isNull() | (F.length("value") == 0), "empty line")
        .when(~F.col("valid"), "not UTF-8")
        .when(F.length("text") == 0, "empty line")
        .when((F.size("parts") != 8) | F.col("text").contains(_PART), "not in combined log format")
        .when(F.col("time").isNull(), "no such time")
        .when(
            F.col("time") > F.col("arrived") + F.expr(f"INTERVAL {MAX_AHEAD}"), "time in the future"
        )
        .when(~_part(3).rlike(_REQUEST), "request is not METHOD PATH PROTOCOL")
    )


def _fields() -> list[Column]:
    """Return the columns of an event, null where `reason` is not."""
    path = F.regexp_extract(_part(3), _REQUEST, 2)
    query = F.regexp_extract(path, rf"^[^?#]*\?(?:[^#]*?&)??(?:{SEARCH_PARAMETERS})=([^&#]+)", 1)
    fields = {
        "event_time": F.col("time"),
        "visitor": _part(0),
        "user": F.nullif(_part(1), F.lit("-")),
        "method": F.regexp_extract(_part(3), _REQUEST, 1),
        "path": path,
        "page": F.regexp_extract(path, r"^[^?#]*", 0),
        "search": F.try_url_decode(F.nullif(query, F.lit(""))),
        "status": _part(4).cast("int"),
        "bytes": F.when(_part(5) != "-", F.expr("try_cast(get(parts, 5) AS bigint)")),
        "referrer": F.nullif(_part(6), F.lit("-")),
        "agent": F.nullif(_part(7), F.lit("-")),
    }
    return [F.when(F.col("reason").isNull(), value).alias(name) for name, value in fields.items()]


def malformed(parsed: DataFrame) -> DataFrame:
    """Return the malformed records as they came, for the sink, as `dead_letters` of the stage `parse`."""
    records = parsed.withColumn("timestamp", F.col("arrived"))
    return dead_letters(records, failure("reason"), stage="parse", headers=False)


def events(parsed: DataFrame) -> DataFrame:
    """Return the well-formed lines, with `crawler` by the name of the agent, and `late`.

    `date` and `hour` of event time (UTC sessions) are to partition by.
    """
    late = F.col("arrived") - F.col("event_time") > F.expr(f"INTERVAL {ALLOWED_LATENESS}")
    # Columns are named, not dropped: for that Spark analyses the frame, which it refuses in a function of a flow.
    return parsed.where(F.col("reason").isNull()).select(
        "topic", "partition", "offset", "arrived", *_FIELDS,
        F.coalesce(F.col("agent").rlike(_CRAWLER), F.lit(False)).alias("crawler"),
        late.alias("late"),
        F.to_date("event_time").alias("date"),
        F.hour("event_time").alias("hour"),
    )  # fmt: skip


def on_time(events: DataFrame) -> DataFrame:
    """Return the events that windows count, with the watermark."""
    return events.where(~F.col("late")).withWatermark("event_time", WATERMARK)


def page_counts(events: DataFrame) -> DataFrame:
    """Count requests, bytes and errors of each page in sliding windows of event time.

    On a stream it needs the events of `on_time`; on a batch late ones are counted, too, where they belong.
    """
    window = F.window("event_time", WINDOW, SLIDE)
    counts = events.groupBy(window.alias("window"), "page").agg(
        F.count("*").alias("requests"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.count_if(F.col("status") >= 400).alias("errors"),
    )
    return counts.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "page", "requests", "bytes", "errors",
    )  # fmt: skip


def top_pages(counts: DataFrame, length: int) -> DataFrame:
    """Return for each window its `length` most requested pages as `rank`, `page`, `requests`; ties by name.

    On a stream it needs `counts` in append mode.
    """
    ranked = F.array_sort(
        F.collect_list(F.struct((-F.col("requests")).alias("order"), "page", "requests"))
    )
    tops = counts.groupBy("window_start", "window_end").agg(F.slice(ranked, 1, length).alias("top"))
    rows = tops.select("window_start", "window_end", F.posexplode("top").alias("index", "entry"))
    return rows.select(
        "window_start", "window_end", (F.col("index") + 1).alias("rank"), "entry.page", "entry.requests"
    )  # fmt: skip


def sessions(on_time: DataFrame, gap: str = SESSION_GAP) -> DataFrame:
    """Return each visitor's sessions: what lies between two silences of `gap`; `end` is the last request."""
    time = F.col("event_time")
    window = F.session_window("event_time", gap)
    sessions_by_visitor = on_time.groupBy(window.alias("session"), "visitor").agg(
        F.max(time).alias("end"),
        F.count("*").alias("requests"),
        F.count("search").alias("searches"),
        F.min_by("page", F.struct(time, "page")).alias("entry_page"),
        F.max_by("page", F.struct(time, "page")).alias("exit_page"),
    )
    return sessions_by_visitor.select(
        "visitor", F.col("session.start").alias("start"), "end", "requests", "searches",
        "entry_page", "exit_page",
    )  # fmt: skip


def crawler_alerts(
    on_time: DataFrame,
    crawler_requests: int = CRAWLER_REQUESTS_PER_MINUTE,
    visitor_requests: int = VISITOR_REQUESTS_PER_MINUTE,
    disallowed: str = DISALLOWED_PREFIX,
) -> DataFrame:
    """Find crawlers that are too fast or ignore robots.txt, and abusers, in each minute of event time.

    A row is (`visitor`, `minute`, `kind`, `requests`, `reason`); `kind` is crawler or abuser.
    """
    minute = F.window("event_time", _MINUTE).alias("window")
    rates = on_time.groupBy(minute, "visitor").agg(
        F.count("*").alias("requests"),
        F.count_if(F.col("page").startswith(disallowed)).alias("forbidden"),
        F.bool_or("crawler").alias("crawler"),
    )
    crawler, requests = F.col("crawler"), F.col("requests")
    too_fast = F.format_string("%d requests in a minute", requests)
    reason = (
        F.when(crawler & (F.col("forbidden") > 0),
               F.format_string("%d requests that robots.txt forbids", F.col("forbidden")))
        .when(crawler & (requests > crawler_requests), too_fast)
        .when(~crawler & (requests > visitor_requests), too_fast)
    )  # fmt: skip
    alerts = rates.select(
        "visitor",
        F.col("window.start").alias("minute"),
        F.when(crawler, "crawler").otherwise("abuser").alias("kind"),
        "requests",
        reason.alias("reason"),
    )
    return alerts.where(F.col("reason").isNotNull())


def limits(
    events: DataFrame,
    requests_per_minute: int = LIMIT_REQUESTS_PER_MINUTE,
    limited_for: str = LIMITED_FOR,
) -> DataFrame:
    """Find clients with more requests in a minute, each minute once, in the batch in which they get there.

    A row is (`client`, `minute`, `limit`, `until`). Late events are not counted. It keeps state, so it needs a stream;
    in a function of a flow, Spark wants it to read topics and no table of the graph.
    """
    minute = F.unix_timestamp(F.date_trunc("minute", "event_time"))
    requests = events.where(~F.col("late")).select(
        F.pmod(F.hash("visitor"), F.lit(_LIMIT_GROUPS)).alias("group"),
        F.col("visitor").alias("client"),
        minute.alias("minute"),
    )
    above = requests.groupBy("group").applyInPandasWithState(
        count_requests(requests_per_minute), _LIMIT_ROWS, COUNTS, "append", "NoTimeout"
    )
    start = F.timestamp_seconds("minute")
    return above.select(
        "client",
        start.alias("minute"),
        F.lit(requests_per_minute).alias("limit"),
        (start + F.expr(f"INTERVAL {_MINUTE}") + F.expr(f"INTERVAL {limited_for}")).alias("until"),
    )


def feed(events: DataFrame) -> DataFrame:
    """Return what people did, as (`actor`, `time`, `action`, `page`, `search`, `late`).

    `actor` is the user or the host, `action` is view, search or submit. Crawlers, errors and redirections are left out.
    """
    action = (
        F.when(F.col("search").isNotNull(), "search")
        .when(F.col("method") == "GET", "view")
        .when(F.col("method") == "POST", "submit")
    )
    good = (F.col("status") < 300) | (F.col("status") == 304)
    rows = events.where(~F.col("crawler") & good).select(
        F.coalesce("user", "visitor").alias("actor"),
        F.col("event_time").alias("time"),
        action.alias("action"),
        "page",
        "search",
        "late",
    )
    return rows.where(F.col("action").isNotNull())


def as_records(rows: DataFrame, key: str) -> DataFrame:
    """Return rows for the sink: the column `key` as the record's key, the whole row as JSON in its value."""
    return rows.select(
        F.col(key).cast("string").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
