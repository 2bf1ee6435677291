"""A job for workers that do not have kavka: `spark-submit ... packed_job.py <bootstrap> <topic> <copy> <checkpoint>`.

It copies a topic exactly once, and prints as JSON how many records the copy has and from where executors import kavka.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession


def main(bootstrap: str, topic: str, copy: str, checkpoint: str) -> None:
    """Run the job; the result is the last line."""
    session = SparkSession.builder.appName("packed").getOrCreate()
    servers = {"kafka.bootstrap.servers": bootstrap}
    rows = session.readStream.format("kavka").options(**servers, subscribe=topic)
    writer = rows.option("startingOffsets", "earliest").load().writeStream.format("kavka")
    query = (
        writer.options(**servers, topic=copy, deliveryGuarantee="exactly-once", sinkId=copy)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    def origins(_: Iterator[int]) -> Iterator[tuple[str, str]]:
        import kavka.wire.records._kernel as kernel  # type: ignore[import-not-found]

        yield sys.executable, kernel.__file__

    seen = session.sparkContext.parallelize(range(4), 4).mapPartitions(origins).collect()
    copied = session.read.format("kavka").options(**servers, subscribe=copy).load().count()
    session.stop()
    print(json.dumps({"copied": copied, "seen": sorted(set(seen))}))


if __name__ == "__main__":
    main(*sys.argv[1:5])
