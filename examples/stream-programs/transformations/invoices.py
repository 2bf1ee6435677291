"""De-duplication: one invoice for each sale, although tills send a sale again when they heard no answer."""

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
    "invoices",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "invoices",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "invoices",
    },
)


@dp.append_flow(target="invoices", name="write_invoices")
def write_invoices() -> DataFrame:
    # A sale's id is remembered until the watermark is ten minutes behind its first record.
    once = events(
        "sales", "sale STRING, product STRING, quantity INT"
    ).dropDuplicatesWithinWatermark(["sale"])
    invoice = F.struct("sale", "product", "quantity")
    return once.select(F.col("sale").alias("key"), F.to_json(invoice).alias("value"))
