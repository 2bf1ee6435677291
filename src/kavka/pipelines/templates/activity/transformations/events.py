"""Lines of an access log from the topic {{name}}-access: well-formed ones into a table, others into a topic.

A record is a line in combined log format, or a record of `kavka collect files` with the line in its field `message`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kavka.pipelines import activity, expect, expect_or_drop

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"


@dp.temporary_view
def lines() -> DataFrame:
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "{{name}}-access")
        .option("startingOffsets", "earliest")
        .load()
    )
    return activity.parse(records)


@dp.table(
    partition_cols=["date", "hour"],
    comment="Each request once, with partition and offset of its line; late ones are marked.",
)
@expect("on time", "NOT late")
def events() -> DataFrame:
    well_formed = expect_or_drop("well-formed line", "reason IS NULL")
    return activity.events(well_formed(spark.readStream.table("lines")))


dp.create_sink(
    "quarantine",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "{{name}}-quarantine",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "{{name}}-quarantine",
    },
)


@dp.append_flow(target="quarantine", name="malformed_lines")
def malformed_lines() -> DataFrame:
    """Send malformed records unchanged, with reason and origin in headers: for `kavka pipelines redrive`."""
    return activity.malformed(spark.readStream.table("lines"))
