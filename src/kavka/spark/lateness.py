"""Rows that come too late, kept: a bound before an aggregation, so that what Spark would drop has a place to go.

Spark's watermark is the latest event time of earlier batches, less the delay, and a stateful operator drops what is
behind it without a trace. No expression can read it. This bound is one that each row carries: a row is late when its
event time is more than `delay` before its record's timestamp, that is, before it came into the topic.

    ... ----|------------ delay ------------|----> time
            bound                        timestamp
      late  |  on time

It is the same in every run, so that each row is on one side, also in two queries and when a batch is repeated. Rows
that are on time can be behind Spark's watermark only when partitions are read unevenly: give the watermark some time
more than `delay`, and watch the count of late rows that Spark drops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.spark.dead_letters import failure

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def lateness(event_time: str, delay: str, arrival: str = "timestamp") -> Column:
    """Return the error of a late row, null for one on time; a row without an event time is late.

    `delay` is an interval such as `10 minutes`; `arrival` the column of the time at which the record came.
    """
    from pyspark.sql import functions as F

    at, came = F.col(event_time), F.col(arrival)
    is_on_time = F.coalesce(at >= came - F.expr(f"INTERVAL {delay}"), F.lit(False))
    behind = F.coalesce(
        F.concat(
            F.lit("the event is of "), at.cast("string"), F.lit(f", more than {delay} before "), came.cast("string")
        ),
        F.lit(f"{event_time} is null"),
    )  # fmt: skip
    return failure(F.when(~is_on_time, behind), "kavka.spark.lateness.Late")


def on_time(frame: DataFrame, event_time: str, delay: str, arrival: str = "timestamp") -> DataFrame:
    """Return the rows that are not late."""
    return frame.where(lateness(event_time, delay, arrival).isNull())


def late(frame: DataFrame, event_time: str, delay: str, arrival: str = "timestamp") -> DataFrame:
    """Return the late rows, with all their columns: all that `on_time` leaves out."""
    return frame.where(lateness(event_time, delay, arrival).isNotNull())
