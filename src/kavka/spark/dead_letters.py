"""Dead letters: records that could not be processed, with the reason in headers, for a topic of their own.

A dead letter has the key, the value and the headers of its record, and after them headers named as those of Kafka
Connect, with another prefix: values are text in UTF-8.

    __kavka.errors.topic, .partition, .offset, .timestamp (milliseconds)    where the record was read
    __kavka.errors.exception.class.name, .exception.message, .exception.stacktrace
    __kavka.errors.stage      what was done: `decode`, `late` or a name of the user's

`kavka pipelines redrive` sends them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.client.dead_letters import CLASS_NAME as CLASS
from kavka.client.dead_letters import (
    HEADER_PREFIX,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    STAGE,
    TIMESTAMP,
    TOPIC,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MILLIS = 1000


def failure(message: Column | str, kind: str = "") -> Column:
    """Return an error as `decode` gives it: of a text that is the reason, null where the text is null."""
    from pyspark.sql import functions as F

    text = F.col(message) if isinstance(message, str) else message
    error = F.struct(
        text.alias("message"),
        F.lit(kind or None).cast("string").alias("class"),
        F.lit(None).cast("string").alias("stacktrace"),
    )
    return F.when(text.isNotNull(), error)


def without_errors(frame: DataFrame, error: Column | str) -> DataFrame:
    """Return the rows whose error is null."""
    return frame.where(_column(error).isNull())


def dead_letters(
    frame: DataFrame, error: Column | str, *, stage: str = "decode", headers: bool = True
) -> DataFrame:
    """Return the rows with an error as records for a sink with the option `topic`: `key`, `value` and `headers`.

    `frame` has the columns of the source: key, value, topic, partition, offset, timestamp, and headers (the source's
    option includeHeaders), unless `headers` is false: then the record's own are lost. `error` is a column such as
    `decode` gives, or `failure`.
    """
    from pyspark.sql import functions as F

    bad = frame.where(_column(error).isNotNull())
    known = F.filter(_error_headers(_column(error), stage), lambda one: one["value"].isNotNull())
    return bad.select(
        F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
        F.concat(_own_headers(headers), known).alias("headers"),
    )


def _own_headers(are_read: bool) -> Column:
    """Return the record's headers, without those of an earlier failure."""
    from pyspark.sql import functions as F

    none = F.array().cast("array<struct<key:string,value:binary>>")
    if not are_read:
        return none
    kept = F.filter(F.col("headers"), lambda one: ~one["key"].startswith(HEADER_PREFIX))
    return F.coalesce(kept, none)


def _error_headers(error: Column, stage: str) -> Column:
    from pyspark.sql import functions as F

    def header(name: str, value: Any) -> Column:
        return F.struct(
            F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")
        )

    millis = F.expr("unix_micros(timestamp)") / _MILLIS
    return F.array(
        header(TOPIC, F.col("topic")),
        header(PARTITION, F.col("partition")),
        header(OFFSET, F.col("offset")),
        header(TIMESTAMP, F.floor(millis).cast("long")),
        header(STAGE, F.lit(stage)),
        header(CLASS, error["class"]),
        header(MESSAGE, error["message"]),
        header(STACKTRACE, error["stacktrace"]),
    )


def _column(given: Column | str) -> Column:
    from pyspark.sql import functions as F

    return F.col(given) if isinstance(given, str) else given
