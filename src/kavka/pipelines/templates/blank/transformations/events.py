"""From the topic {{name}}-events to a table, and on to the topic {{name}}-alerts, each record exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"


@dp.table(comment="Events as they came: a JSON object with user, page and status in each record.")
def events() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "{{name}}-events")
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), "user STRING, page STRING, status INT")
    return records.select("timestamp", "partition", "offset", event.alias("event")).select(
        "timestamp", "partition", "offset", "event.*"
    )


dp.create_sink(
    "alerts",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "{{name}}-alerts",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "{{name}}-alerts",
    },
)


@dp.append_flow(target="alerts", name="failed_requests")
def failed_requests() -> DataFrame:
    failed = spark.readStream.table("events").where("status >= 500")
    return failed.select(
        F.col("user").alias("key"), F.to_json(F.struct("page", "status")).alias("value")
    )
