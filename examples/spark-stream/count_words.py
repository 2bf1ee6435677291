"""Count the words of a topic with a stream that reads what is there, and ends."""

import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, explode, split

SERVERS = os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")


def main() -> None:
    """Run the query. Without the trigger it would wait for more lines."""
    spark = SparkSession.builder.master("local[2]").appName("count words").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    lines = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", "lines")
        .option("startingOffsets", "earliest")
        .load()
    )
    words = lines.select(explode(split(col("value").cast("string"), " ")).alias("word"))
    query = (
        words.groupBy("word")
        .count()
        .writeStream.format("memory")
        .queryName("counts")
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for row in spark.table("counts").orderBy(col("count").desc(), col("word")).collect():
        print(row["word"], row["count"])
    spark.stop()


if __name__ == "__main__":
    main()
