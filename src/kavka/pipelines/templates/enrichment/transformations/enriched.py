"""Orders with their customers: a stream joined with a table that changes, the compacted topic {{name}}-customers.

An order is joined with the customer as the table has it when the order is read, and gets no second result when the
customer changes later.
"""

from collections.abc import Iterator

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from kavka.spark.frames import in_key_order

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "{{bootstrap}}"
ORDER = "id STRING, customer STRING, amount DOUBLE"
CUSTOMER = "name STRING, country STRING"


class WithCustomer(StatefulProcessor):
    """The row of a customer, and the orders of the customer joined with it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state: the last value of the table, as text."""
        self._customer = handle.getValueState("customer", "value STRING")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:  # type: ignore[no-untyped-def]
        """Process changes of the table first, then orders in the order of their records."""
        rows = list(rows)
        changes = [row for row in rows if row.is_change]
        if changes:
            last = max(changes, key=lambda row: row.offset)  # of one key, so of one partition
            if last.value is None:
                self._customer.clear()
            else:
                self._customer.update((last.value,))
        orders = [row for row in rows if not row.is_change]
        customer = self._customer.get() if orders else None
        for order in sorted(orders, key=lambda row: (row.partition, row.offset)):
            yield Row(
                order=order.value,
                customer=customer[0] if customer else None,
                partition=order.partition,
                offset=order.offset,
            )


def joined() -> DataFrame:
    """Return each order's JSON with its customer's."""
    topics = spark.readStream.format("kavka").option("kafka.bootstrap.servers", BROKERS)
    topics = topics.option("kafka.isolation.level", "read_committed")
    orders = topics.option("subscribe", "{{name}}-orders").option("startingOffsets", "earliest")
    table = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "{{name}}-customers")
        .option("view", "latest")
    )
    text = F.col("value").cast("string").alias("value")
    customer = F.from_json(F.col("value").cast("string"), ORDER)["customer"]
    rows = (
        orders.load()
        .select(customer.alias("key"), text, "partition", "offset", F.lit(False).alias("is_change"))
        .unionByName(
            table.load().select(
                F.col("key").cast("string").alias("key"),
                text,
                "partition",
                "offset",
                F.lit(True).alias("is_change"),
            )
        )
    )
    return rows.groupBy("key").transformWithState(
        WithCustomer(),
        "order STRING, customer STRING, partition INT, offset LONG",
        outputMode="append",
        timeMode="none",
    )


# Here and not in the function below: transformWithState asks Spark for the columns, which a flow must not.
JOINED = joined()


@dp.table(
    comment="Each order with its customer; `order_json` is the record as it came, from that partition and offset."
)
def enriched() -> DataFrame:
    order = F.from_json("order", ORDER).alias("order")
    customer = F.from_json("customer", CUSTOMER).alias("customer")
    rows = JOINED.select(F.col("order").alias("order_json"), order, customer, "partition", "offset")
    return rows.select(
        "order.id",
        F.col("order.customer").alias("customer"),
        "order.amount",
        "customer.name",
        "customer.country",
        F.col("customer").isNotNull().alias("is_known"),
        "order_json",
        "partition",
        "offset",
    )


for name in ("enriched", "unmatched"):
    dp.create_sink(
        f"{name}_orders",
        "kavka",
        {
            "kafka.bootstrap.servers": BROKERS,
            "topic": f"{{name}}-{name}",
            "deliveryGuarantee": "exactly-once",
            "sinkId": f"{{name}}-{name}",
        },
    )


@dp.append_flow(target="enriched_orders", name="write_enriched")
def write_enriched() -> DataFrame:
    value = F.to_json(F.struct("id", "customer", "amount", "name", "country")).alias("value")
    known = spark.readStream.table("enriched").where("is_known")
    records = known.select(F.col("customer").alias("key"), value, "partition", "offset")
    return in_key_order(records, "partition", "offset")


@dp.append_flow(target="unmatched_orders", name="write_unmatched")
def write_unmatched() -> DataFrame:
    """Orders whose customer is unknown, and records that are no orders: as they came."""
    unknown = spark.readStream.table("enriched").where("NOT is_known")
    value = F.col("order_json").alias("value")
    records = unknown.select(F.col("customer").alias("key"), value, "partition", "offset")
    return in_key_order(records, "partition", "offset")
