"""Re-ordering: sales of a product in the order of their times, not in that of their arrival."""

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


class InOrder(StatefulProcessor):
    """Events wait until the watermark has passed them; then no earlier one can come."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._waiting = handle.getMapState("waiting", "at_ms LONG, sale STRING", "value STRING")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        earliest = None
        for row in rows:
            self._waiting.updateValue((row.at_ms, row.sale), (row.value,))
            earliest = row.at_ms if earliest is None else min(earliest, row.at_ms)
        if earliest is not None:
            self._handle.registerTimer(earliest)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        waiting = sorted((tuple(at), value[0]) for at, value in self._waiting.iterator())
        for (at_ms, sale), value in waiting:
            if at_ms > watermark_ms:
                self._handle.registerTimer(at_ms)
                break
            self._waiting.removeKey((at_ms, sale))
            yield Row(key=key[0], value=value)


dp.create_sink(
    "ordered_sales",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "sales-in-order",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "sales-in-order",
    },
)


def ordered() -> DataFrame:
    sale = F.to_json(F.struct("sale", "product", "quantity", "at")).alias("value")
    rows = events("sales", "sale STRING, product STRING, quantity INT").select(
        "product", "sale", "at", F.unix_millis("at").alias("at_ms"), sale
    )
    return rows.groupBy("product").transformWithState(
        InOrder(), "key STRING, value STRING", outputMode="append", timeMode="eventTime"
    )


# Here and not in the flow: transformWithState asks Spark for the columns, which a flow's function must not.
ORDERED = ordered()


@dp.append_flow(target="ordered_sales", name="order_sales")
def order_sales() -> DataFrame:
    return ORDERED
