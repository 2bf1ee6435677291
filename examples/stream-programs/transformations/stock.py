"""State with time-outs: sales and shipments to the topics `reorders` and `price-adjustments`.

A product of which there is little is ordered and gets dearer. An order without a shipment expires after an hour of the
events' time; the next sale orders again.
"""

import json
from collections.abc import Iterator

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

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


LITTLE, ENOUGH = 5, 20
"""Pieces: when to order, and up to how many."""
PATIENCE_MS = 3_600_000


class Stock(StatefulProcessor):
    """The pieces of a product, and when its order expires (0 without one)."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("stock", "pieces LONG, expires_ms LONG")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        product = key[0]
        pieces, expires_ms = self._state.get() or (0, 0)
        for row in sorted(rows, key=lambda row: (row.at_ms, row.change < 0)):
            if expires_ms and row.at_ms > expires_ms:  # the watermark is not there yet
                yield expired(product, expires_ms)
                self._handle.deleteTimer(expires_ms)
                expires_ms = 0
            before, pieces = pieces, pieces + row.change
            if row.change < 0 and pieces < LITTLE and not expires_ms:
                yield record("reorders", product, state="ordered", pieces=ENOUGH - pieces)
                expires_ms = row.at_ms + PATIENCE_MS
                self._handle.registerTimer(expires_ms)
            elif row.change > 0 and expires_ms:
                yield record("reorders", product, state="arrived", pieces=row.change)
                self._handle.deleteTimer(expires_ms)
                expires_ms = 0
            if (before < LITTLE) != (pieces < LITTLE):
                yield record("price-adjustments", product, percent=110 if pieces < LITTLE else 100)
        self._state.update((pieces, expires_ms))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        pieces, expires_ms = self._state.get()
        if expires_ms == expiredTimerInfo.getExpiryTimeInMs():
            self._state.update((pieces, 0))
            yield expired(key[0], expires_ms)


def expired(product: str, at_ms: int) -> Row:
    return record("reorders", product, state="expired", at_ms=at_ms)


def record(topic: str, product: str, **fields: object) -> Row:
    return Row(topic=topic, key=product, value=json.dumps({"product": product, **fields}))


# Without the option `topic` a row's column says where it goes.
dp.create_sink(
    "orders_and_prices",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "deliveryGuarantee": "exactly-once",
        "sinkId": "orders-and-prices",
    },
)


def orders_and_prices() -> DataFrame:
    sales = events(
        "sales", "sale STRING, product STRING, quantity INT"
    ).dropDuplicatesWithinWatermark(["sale"])
    sold = sales.select("product", "at", (-F.col("quantity")).alias("change"))
    arrived = events("shipments", "product STRING, quantity INT").select(
        "product", "at", F.col("quantity").alias("change")
    )
    changes = sold.unionByName(arrived).withColumn("at_ms", F.unix_millis("at"))
    return changes.groupBy("product").transformWithState(
        Stock(), "topic STRING, key STRING, value STRING", outputMode="append", timeMode="eventTime"
    )


# Here and not in the flow: transformWithState asks Spark for the columns, which a flow's function must not.
CHANGES = orders_and_prices()


@dp.append_flow(target="orders_and_prices", name="keep_stock")
def keep_stock() -> DataFrame:
    return CHANGES
