"""Word count: the topic `lines` to the compacted topic `word-counts`, whose last record of a word is its count."""

from collections.abc import Iterator

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

spark: SparkSession  # given by the program that runs the pipeline

BROKERS = "localhost:9092"


class CountWords(StatefulProcessor):
    """The count of each word, and a row each time that it changes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        before = self._count.get()
        count = sum(1 for _ in rows) + (before[0] if before else 0)
        self._count.update((count,))
        yield Row(key=key[0], value=str(count))


dp.create_sink(
    "word_counts",
    "kavka",
    {
        "kafka.bootstrap.servers": BROKERS,
        "topic": "word-counts",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "word-counts",
    },
)


def counted() -> DataFrame:
    lines = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "lines")
        .option("startingOffsets", "earliest")
        .load()
    )
    line = F.lower(F.col("value").cast("string"))
    words = lines.select(F.explode(F.split(line, r"\W+")).alias("word")).where("word <> ''")
    return words.groupBy("word").transformWithState(
        CountWords(), "key STRING, value STRING", outputMode="append", timeMode="none"
    )


# Here and not in the flow: transformWithState asks Spark for the columns, which a flow's function must not.
COUNTED = counted()


@dp.append_flow(target="word_counts", name="count_words")
def count_words() -> DataFrame:
    return COUNTED
