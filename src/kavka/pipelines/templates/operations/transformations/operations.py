"""Metrics and logs of collectors → windows, error rates, and alerts: two records for each incident.

    {{name}}-logs ───── error_rates ────┐
    {{name}}-metrics ┬─ metric_windows ─┴─ publish_windows ─► {{name}}-windows ┐
                     └─────────────────────────────────────────────────────────┴ raise_alerts ─► {{name}}-alerts

Both sinks write exactly once. Values of windows that rules name go through a topic of their own: operators in Python,
as that of the alerts, can read topics and not the tables of their own pipeline.

Windows are of the time of collection: nothing that is collected late is left out of them.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kavka.pipelines import expect_or_drop
from kavka.pipelines.operations.rules import load_rules
from kavka.pipelines.operations.stateful import alerts
from kavka.spark.frames import in_key_order

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"
RULES = load_rules(Path(__file__).parents[1] / "alerts.yml")
WINDOW = "1 minute"
DELAY = "1 minute"
"""Age at which a record of a collector, beside the newest, still counts: differences between clocks."""
RECORD = """
    time TIMESTAMP, collected TIMESTAMP, kind STRING, host STRING, source STRING,
    labels MAP<STRING, STRING>, message STRING, fields MAP<STRING, STRING>, name STRING, value DOUBLE, error STRING
"""
ERROR_LEVELS = ("ERROR", "ERR", "FATAL", "CRITICAL", "CRIT", "ALERT", "EMERG", "PANIC", "SEVERE")
ERROR_WORDS = r"\b(ERROR|FATAL|CRITICAL|PANIC|Traceback)\b"
"""For lines that no parser has taken apart."""


def collected(topic: str) -> DataFrame:
    """Return what collectors have written into a topic, one row for each record."""
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    record = F.from_json(F.col("value").cast("string"), RECORD)
    rows = records.select("topic", record.alias("record")).select("topic", "record.*")
    # The same labels are the same text, whatever their order. A clock that is wrong must not make all others late.
    entries = F.array_sort(F.map_entries(F.coalesce("labels", F.create_map())))
    return rows.withColumns(
        {
            "labels": F.map_from_entries(entries),
            "collected": F.least("collected", F.current_timestamp()),
        }
    )


# Metrics by window


@dp.table(
    comment="Each series in each minute: count, min, max, mean, percentiles and the last value."
)
def metric_windows() -> DataFrame:
    is_sample = expect_or_drop("a sample of a collector", "kind = 'metric' AND name IS NOT NULL")
    samples = is_sample(collected("{{name}}-metrics"))
    samples = samples.where("value IS NOT NULL AND NOT isnan(value) AND NOT name LIKE '%_bucket'")
    window = F.window("collected", WINDOW).alias("window")
    value = F.col("value")
    percentiles = F.percentile_approx(value, F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)), 1000)
    counts = (
        samples.withColumn("series", F.to_json("labels"))
        .withWatermark("collected", DELAY)
        .groupBy(window, "host", "source", "name", "series")
        .agg(
            F.count(value).alias("count"),
            F.min(value).alias("min"),
            F.max(value).alias("max"),
            F.avg(value).alias("mean"),
            percentiles.alias("percentiles"),
            F.max_by(value, "time").alias("last"),
        )
    )
    return counts.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "host", "source", "name",
        F.from_json("series", "MAP<STRING, STRING>").alias("labels"),
        "count", "min", "max", "mean",
        F.col("percentiles")[0].alias("p50"),
        F.col("percentiles")[1].alias("p95"),
        F.col("percentiles")[2].alias("p99"),
        "last",
    )  # fmt: skip


# Errors of logs and services


def is_error() -> Column:
    """Return whether an event is an error: by its status, its level, or else by its words."""
    level = F.upper(F.coalesce(*(F.col("fields")[name] for name in ("level", "severity", "lvl"))))
    known = F.coalesce(status() >= 500, level.isin(*ERROR_LEVELS))
    return F.coalesce(known, F.col("message").rlike(ERROR_WORDS), F.lit(False))


def status() -> Column:
    """Return the status of a request, null where an event is none."""
    return F.expr("try_cast(fields['status'] AS INT)")


def seconds() -> Column:
    """Return how long a request took, null where the log does not say."""
    return F.expr(
        "coalesce(try_cast(fields['request_time'] AS DOUBLE), try_cast(fields['duration_ms'] AS DOUBLE) / 1000)"
    )


@dp.table(comment="Each log in each minute: events, errors, requests, failed requests, their time.")
def error_rates() -> DataFrame:
    events = expect_or_drop("an event of a collector", "kind = 'log'")(collected("{{name}}-logs"))
    service = F.coalesce(F.col("labels")["service"], F.regexp_extract("source", "([^/]*)$", 1))
    window = F.window("collected", WINDOW).alias("window")
    percentiles = F.percentile_approx(
        seconds(), F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)), 1000
    )
    counts = (
        events.withColumn("service", service)
        .withWatermark("collected", DELAY)
        .groupBy(window, "host", "source", "service")
        .agg(
            F.count("*").alias("events"),
            F.count_if(is_error()).alias("errors"),
            F.count_if(status().isNotNull()).alias("requests"),
            F.count_if(status() >= 500).alias("failed_requests"),
            percentiles.alias("percentiles"),
        )
    )
    return counts.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "host", "source", "service", "events", "errors",
        (F.col("errors") / F.col("events")).alias("error_ratio"),
        "requests", "failed_requests",
        F.try_divide("failed_requests", "requests").alias("failed_ratio"),
        F.col("percentiles")[0].alias("p50_seconds"),
        F.col("percentiles")[1].alias("p95_seconds"),
        F.col("percentiles")[2].alias("p99_seconds"),
    )  # fmt: skip


# Values of windows as samples


def samples_of_windows(
    windows: DataFrame, prefix: Column, labels: Column, columns: list[str]
) -> DataFrame:
    """Return columns of windows as samples, each named `prefix` and the column's name; null is no sample."""
    pairs = [(F.concat(prefix, F.lit(name)), F.col(name).cast("double")) for name in columns]
    named = F.array(*(F.struct(name.alias("name"), value.alias("value")) for name, value in pairs))
    rows = windows.select(
        "host",
        "source",
        "window_end",
        labels.alias("labels"),
        F.inline(named).alias("name", "value"),
    )
    return rows.where(F.col("name").isin(RULES.metrics) & F.col("value").isNotNull())


def exactly_once(topic: str) -> dict[str, str]:
    """Return the options of a sink."""
    return {
        "kafka.bootstrap.servers": BROKERS,
        "topic": topic,
        "deliveryGuarantee": "exactly-once",
        "sinkId": topic,
    }


dp.create_sink("windows", "kavka", exactly_once("{{name}}-windows"))


@dp.append_flow(target="windows", name="publish_windows")
def publish_windows() -> DataFrame:
    """Write records as collectors do, of the metrics that a rule names."""
    metrics = samples_of_windows(
        spark.readStream.table("metric_windows"),
        F.concat("name", F.lit(":")),
        F.col("labels"),
        ["count", "min", "max", "mean", "p50", "p95", "p99"],
    )
    logs = samples_of_windows(
        spark.readStream.table("error_rates"),
        F.lit("log:"),
        F.create_map(F.lit("service"), "service"),
        [
            "events",
            "errors",
            "error_ratio",
            "failed_ratio",
            "p50_seconds",
            "p95_seconds",
            "p99_seconds",
        ],
    )
    record = F.struct(
        F.col("window_end").alias("time"), F.col("window_end").alias("collected"),
        F.lit("metric").alias("kind"), "host", "source", "labels", "name", "value",
    )  # fmt: skip
    records = metrics.unionByName(logs).select(
        F.concat("host", F.lit(":"), "source").alias("key"),
        F.to_json(record).alias("value"),
        F.unix_micros("window_end").alias("end"),
    )
    return in_key_order(records, "end")  # rules pass over values that are older than the last one


# Alerts

dp.create_sink("alerts", "kavka", exactly_once("{{name}}-alerts"))


# Timers of silence are looked at with the next records: no batch of their own after each batch.
@dp.append_flow(
    target="alerts",
    name="raise_alerts",
    spark_conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
)
def raise_alerts() -> DataFrame:
    """Write one `firing` and one `resolved` record for each incident of a rule in alerts.yml."""
    stream = F.when(F.col("topic") == "{{name}}-windows", "windows").otherwise("metrics")
    samples = collected("{{name}}-metrics,{{name}}-windows")
    return alerts(samples.withColumn("stream", stream), RULES)
