"""The evaluation of rules as a transformation of Spark: samples in, records of the alerts' topic out.

    samples: time TIMESTAMP, stream STRING, host STRING, source STRING, labels MAP<STRING, STRING>, name STRING,
             value DOUBLE
    alerts:  key STRING, value STRING

Each stream of a source has a state of its own in Spark's state store (RocksDB), a JSON document. Timers go by when
samples arrive at the pipeline, so that a source that is silent is found while others go on. Nothing is late: the
watermark is of the arrival.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import (
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kavka.pipelines.operations.evaluation import Evaluation, Sample, Source
from kavka.pipelines.operations.rules import Rules
from kavka.spark.frames import with_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLLECTED = "metrics"
"""The stream of what collectors send at intervals: sources that are silent are looked for there."""
HEARTBEATS = ("up", "host_load1")
"""Metrics that a page and a host have at each interval: by them a series that has ended is found."""
ALERTS = StructType([StructField("key", StringType()), StructField("value", StringType())])
_SAMPLES = StructType(
    [
        StructField("stream", StringType()),
        StructField("host", StringType()),
        StructField("source", StringType()),
        StructField("time_ms", LongType()),
        StructField("name", StringType()),
        StructField("labels", MapType(StringType(), StringType())),
        StructField("value", DoubleType()),
        StructField("arrived_ms", LongType()),
        StructField("arrived", TimestampType()),
    ]
)


def alerts(samples: DataFrame, rules: Rules) -> DataFrame:
    """Return the events of incidents, two for each, as records with key and value; `samples` is a stream."""
    is_used = F.col("name").isin([*rules.metrics, *HEARTBEATS])
    is_complete = F.expr(
        "host IS NOT NULL AND source IS NOT NULL AND time IS NOT NULL AND value IS NOT NULL"
    )
    used_samples = samples.where(is_used & is_complete).select(
        "stream", "host", "source", F.unix_millis("time").alias("time_ms"), "name", "labels", "value",
        F.unix_millis(F.current_timestamp()).alias("arrived_ms"), F.current_timestamp().alias("arrived"),
    )  # fmt: skip
    keyed = with_schema(used_samples.withWatermark("arrived", "0 seconds"), _SAMPLES)
    return keyed.groupBy("stream", "host", "source").transformWithStateInPandas(
        _AlertProcessor(rules), ALERTS, "Append", "EventTime"
    )


class _AlertProcessor(StatefulProcessor):  # type: ignore[misc]
    """One evaluation for each stream of a source."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("evaluation", "document STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        evaluation = self._evaluation(key)
        samples: list[Sample] = []
        arrived_ms = 0
        for frame in rows:
            samples += _samples(frame)
            arrived_ms = int(frame["arrived_ms"].max())
        evaluation.evaluate(samples, arrived_ms)
        yield from self._end(evaluation)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        evaluation = self._evaluation(key)
        evaluation.handle_timer(int(expiredTimerInfo.getExpiryTimeInMs()))
        yield from self._end(evaluation)

    def close(self) -> None:
        """Release nothing: no resource is open."""

    def _evaluation(self, key: Any) -> Evaluation:
        stored = self._state.get() if self._state.exists() else None
        state = None if stored is None else json.loads(stored[0])
        stream, host, source = key
        return Evaluation(self._rules, Source(host, source, stream == COLLECTED), state)

    def _end(self, evaluation: Evaluation) -> Iterator[Any]:
        """Store the state, register the next timer, and yield the events."""
        import pandas as pd

        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        deadline_ms = evaluation.deadline_ms()
        if deadline_ms is None:
            self._state.clear()
        else:
            self._state.update((json.dumps(evaluation.state, separators=(",", ":")),))
            self._handle.registerTimer(deadline_ms)
        if evaluation.events:
            yield pd.DataFrame(
                {
                    "key": [event.key for event in evaluation.events],
                    "value": [event.to_json() for event in evaluation.events],
                }
            )


def _samples(frame: Any) -> Iterator[Sample]:
    columns = (frame["time_ms"], frame["name"], frame["value"], frame["labels"])
    for time_ms, name, value, labels in zip(*columns, strict=True):
        present = {label: text for label, text in dict(labels or {}).items() if text is not None}
        if math.isfinite(value):
            yield Sample(int(time_ms), name, float(value), present)
