"""The schema of the page about collectors is that of the records, for Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kavka.collect.record import LogRecords, metric_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "collect.md"


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_logs_and_metrics_with_one_schema(spark: SparkSession) -> None:
    from pyspark.sql.functions import col, from_json

    (schema,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    times = ("2026-01-01T00:00:00.123Z", 1_767_225_600_500)
    records = LogRecords("h", "/a", {"site": "b"})
    fields = {"status": 200, "deep": {"a": [1]}}
    constant = {
        "time": times[0],
        "collected": times[0],
        "kind": "metric",
        "host": "h",
        "source": "s",
    }
    values = [
        records.value(b"line", 7, times[0], time_ms=times[1], fields=fields),
        records.value(b"\xff", 8, times[0], error="no"),
        metric_value(constant, "up", 1, {}),
        metric_value(constant, "up", float("nan"), {"a": "b"}),
    ]
    frame = spark.createDataFrame([(value.decode(),) for value in values], "value STRING")
    log, bad, up, nan = (
        row["r"] for row in frame.select(from_json(col("value"), schema).alias("r")).collect()
    )
    assert log["time"].microsecond == 500_000
    assert (log["message"], log["position"], log["labels"]) == ("line", 7, {"site": "b"})
    assert log["fields"] == {"status": "200", "deep": '{"a":[1]}'}
    assert (bad["raw"], bad["error"], bad["fields"]) == ("/w==", "no", None)
    assert (up["name"], up["value"], up["message"]) == ("up", 1.0, None)
    assert (nan["value"], nan["error"], nan["labels"]) == (None, "NaN", {"a": "b"})
