"""A join of two streams: each sale with its payment, or without one when none came in an hour."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "localhost:9092"


def events(topic: str, fields: str) -> DataFrame:
    """Return the events of a topic, which may come ten minutes late."""
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), f"{fields}, at TIMESTAMP")
    return (
        records.select(event.alias("event"))
        .select("event.*")
        .where("at IS NOT NULL")
        .withWatermark("at", "10 minutes")
    )


dp.create_sink(
    "settlements",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "settlements",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "settlements",
    },
)


@dp.append_flow(target="settlements", name="settle")
def settle() -> DataFrame:
    sales = events(
        "sales", "sale STRING, product STRING, quantity INT"
    ).dropDuplicatesWithinWatermark(["sale"])
    payments = events("payments", "sale STRING, amount INT").select(
        F.col("sale").alias("paid_sale"), F.col("at").alias("paid_at"), "amount"
    )
    in_time = F.expr("sale = paid_sale AND paid_at >= at AND paid_at <= at + INTERVAL 1 HOUR")
    joined = sales.join(payments, in_time, "left_outer")
    state = F.when(F.col("paid_at").isNull(), "unpaid").otherwise("paid").alias("state")
    return joined.select(
        F.col("sale").alias("key"), F.to_json(F.struct("sale", state, "amount")).alias("value")
    )
