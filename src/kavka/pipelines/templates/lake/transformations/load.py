"""From the topic {{name}}-lines to the table lake.requests, each record exactly once."""

import sys
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # Spark does not add the project's folder

from request_rows import rows

spark: SparkSession  # given by the program that runs the pipeline

dp.create_sink(
    "requests",
    "kavka-iceberg",
    {
        "table": "lake.requests",
        "catalog.warehouse": "{{directory}}/lake",
        "partitionBy": "day(event_time)",
        "sortBy": "event_time",
        "sinkId": "{{name}}-requests",
    },
)


@dp.append_flow(target="requests", name="load_requests")
def load_requests() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", "{{bootstrap}}")
        .option("subscribe", "{{name}}-lines")
        .option("startingOffsets", "earliest")
        .load()
    )
    return rows(records)
