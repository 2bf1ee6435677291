"""The activity pipeline: from lines of an access log to counts, sessions, alerts and dead letters.

    records ── parse ──┬─ dead_letters ─────────────► topic, with the reason
                       └─ events ─┬─────────────────► Parquet by date and hour
                                  ├─ crawler_alerts ► topic
                                  └─ on_time ─┬─ page_counts ─ top_pages
                                              └─ sessions

Every function takes and gives a data frame, so it runs on batches and on streams. *records* are rows of the Kafka
source (`value` is one line in combined log format, `timestamp` the time when the line was collected). Event time is
the time in the line. A line is *late* when it was collected more than `ALLOWED_LATENESS` after its event time: that is
decided from the record alone, so that two runs agree, and Spark's watermark is a little longer and drops nothing that
is on time.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

ALLOWED_LATENESS = "10 minutes"
"""Maximum delay between event time and collection for a line to be counted in windows."""
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

_PART = "\u0001"
_COMBINED = (
    r'^(\S+) \S+ (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" ([1-5]\d\d) (\d+|-) '
    r'"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$'
)
_PARTS = _PART.join(f"${group}" for group in range(1, 9))
_REQUEST = r"^([A-Z]+) (\S+) HTTP/\d(?:\.\d)?$"
_CRAWLER = r"(?i)bot|crawl|spider|slurp|feed|archiver|fetcher"
_MINUTE = "1 minute"


def parse(records: DataFrame) -> DataFrame:
    """Return one row per record: the fields of its line, or `reason` saying why it is malformed.

    `key`, `value`, `topic`, `partition`, `offset` stay; `arrived` is the record's timestamp. Where `reason` is
    not null the fields of the line are null.
    """
    valid = F.coalesce(F.is_valid_utf8(F.col("value").cast("string")), F.lit(False))
    text = F.when(valid, F.col("value").cast("string"))
    # One run of the regular expression per line: matched groups become a list, anything else a list of another length.
    parts = F.split(F.regexp_replace(text, _COMBINED, _PARTS), _PART)
    rows = records.select(
        "key", "value", "topic", "partition", "offset", F.col("timestamp").alias("arrived"),
        valid.alias("valid"), parts.alias("parts"),
    )  # fmt: skip
    rows = rows.withColumn("time", F.try_to_timestamp(_part(2), F.lit("dd/MMM/yyyy:HH:mm:ss Z")))
    rows = rows.withColumn("reason", _reason())
    return rows.select(
        "key", "value", "topic", "partition", "offset", "arrived", "reason", *_fields()
    )


def _part(index: int) -> Column:
    """Return one group of the line; null when the line did not match."""
    parts = F.col("parts")
    return F.when(F.size(parts) == 8, F.get(parts, F.lit(index)))


def _reason() -> Column:
    """Return the first thing that is wrong with a line, or null."""
    return (
        F.when(F.col("value").isNull() | (F.length("value") == 0), "empty line")
        .when(~F.col("valid"), "not UTF-8")
        .when(F.size("parts") != 8, "not in combined log format")
        .when(F.col("time").isNull(), "no such time")
        .when(~_part(3).rlike(_REQUEST), "request is not METHOD PATH PROTOCOL")
    )


def _fields() -> list[Column]:
    """Return the columns of an event, null where `reason` is not."""
    path = F.regexp_extract(_part(3), _REQUEST, 2)
    query = F.regexp_extract(path, r"^/search\?(?:.*&)?q=([^&]+)", 1)
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


def dead_letters(parsed: DataFrame) -> DataFrame:
    """Return the malformed records as they came, for the sink: the headers say why and from where."""
    header = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in [
            ("reason", F.col("reason")),
            ("topic", F.col("topic")),
            ("partition", F.col("partition")),
            ("offset", F.col("offset")),
        ]
    ]
    letters = parsed.where(F.col("reason").isNotNull())
    return letters.select("key", "value", F.array(*header).alias("headers"))


def events(parsed: DataFrame) -> DataFrame:
    """Return the well-formed lines, with `late`, and `date` and `hour` of event time (UTC sessions) to partition by."""
    late = F.col("arrived") - F.col("event_time") > F.expr(f"INTERVAL {ALLOWED_LATENESS}")
    good = parsed.where(F.col("reason").isNull()).drop("key", "value", "reason")
    return good.select(
        "*",
        late.alias("late"),
        F.to_date("event_time").alias("date"),
        F.hour("event_time").alias("hour"),
    )


def on_time(events: DataFrame) -> DataFrame:
    """Return the events that windows count, with the watermark."""
    return events.where(~F.col("late")).withWatermark("event_time", WATERMARK)


def page_counts(on_time: DataFrame) -> DataFrame:
    """Count requests, bytes and errors of each page in sliding windows of event time."""
    window = F.window("event_time", WINDOW, SLIDE)
    counts = on_time.groupBy(window.alias("window"), "page").agg(
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


def sessions(on_time: DataFrame) -> DataFrame:
    """Return each visitor's sessions: what lies between two silences of `SESSION_GAP`; `end` is the last request."""
    when = F.col("event_time")
    gap = F.session_window("event_time", SESSION_GAP)
    found = on_time.groupBy(gap.alias("session"), "visitor").agg(
        F.max(when).alias("end"),
        F.count("*").alias("requests"),
        F.count("search").alias("searches"),
        F.min_by("page", F.struct(when, "page")).alias("entry_page"),
        F.max_by("page", F.struct(when, "page")).alias("exit_page"),
    )
    return found.select(
        "visitor", F.col("session.start").alias("start"), "end", "requests", "searches",
        "entry_page", "exit_page",
    )  # fmt: skip


def crawler_alerts(on_time: DataFrame) -> DataFrame:
    """Find crawlers that are too fast or ignore robots.txt, and abusers, in each minute of event time.

    A row is (`visitor`, `minute`, `kind`, `requests`, `reason`); `kind` is crawler or abuser.
    """
    minute = F.window("event_time", _MINUTE).alias("window")
    rates = on_time.groupBy(minute, "visitor").agg(
        F.count("*").alias("requests"),
        F.count_if(F.col("page").startswith(DISALLOWED_PREFIX)).alias("forbidden"),
        F.bool_or(F.coalesce(F.col("agent").rlike(_CRAWLER), F.lit(False))).alias("crawler"),
    )
    crawler, requests = F.col("crawler"), F.col("requests")
    too_fast = F.format_string("%d requests in a minute", requests)
    reason = (
        F.when(crawler & (F.col("forbidden") > 0),
               F.format_string("%d requests that robots.txt forbids", F.col("forbidden")))
        .when(crawler & (requests > CRAWLER_REQUESTS_PER_MINUTE), too_fast)
        .when(~crawler & (requests > VISITOR_REQUESTS_PER_MINUTE), too_fast)
    )  # fmt: skip
    alerts = rates.select(
        "visitor",
        F.col("window.start").alias("minute"),
        F.when(crawler, "crawler").otherwise("abuser").alias("kind"),
        "requests",
        reason.alias("reason"),
    )
    return alerts.where(F.col("reason").isNotNull())


def as_records(rows: DataFrame, key: str) -> DataFrame:
    """Return rows for the sink: the column `key` as the record's key, the whole row as JSON in its value."""
    return rows.select(
        F.col(key).cast("string").cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )
