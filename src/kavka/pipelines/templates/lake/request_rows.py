"""The rows of lake.requests, for the load and for `kavka lake reload --transform request_rows.py:rows`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

LINE = """time TIMESTAMP, collected TIMESTAMP, host STRING, source STRING, message STRING,
fields MAP<STRING, STRING>, error STRING"""
"""The fields of the records of `kavka collect files` that are used."""


def rows(records: DataFrame) -> DataFrame:
    """Return a row for each record: also for a line that is no request, with its text and the error.

    The columns `topic`, `partition` and `offset` are for `kavka lake audit` and `kavka lake reload`.
    """
    text = F.col("value").cast("string")
    parsed = records.select(
        F.from_json(text, LINE).alias("line"),
        text.alias("text"),
        "topic",
        "partition",
        "offset",
        "timestamp",
    )
    stranger = F.when(F.col("line.collected").isNull(), F.lit("no record of kavka collect"))
    error = F.coalesce("line.error", stranger)
    field = F.col("line.fields")
    return parsed.select(
        F.coalesce("line.time", "timestamp").alias("event_time"),
        F.col("line.host").alias("host"),
        field["client"].alias("client"),
        field["user"].alias("user"),
        field["method"].alias("method"),
        field["path"].alias("path"),
        field["status"].try_cast("int").alias("status"),
        field["bytes"].try_cast("bigint").alias("bytes"),
        field["referrer"].alias("referrer"),
        field["agent"].alias("agent"),
        error.alias("error"),
        F.when(error.isNotNull(), F.coalesce("line.message", "text")).alias("message"),
        F.col("line.collected").alias("collected"),
        "topic",
        "partition",
        "offset",
    )
