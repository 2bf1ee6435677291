"""A job for clusters, run as a program: copies a topic by a stream, then prints what a batch finds in the copy.

`python cluster_job.py <master> <bootstrap> <topic> <copy> <directory>`; it knows `format("kavka")` only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kavka.spark.session import local_session


def main(master: str, bootstrap: str, topic: str, copy: str, directory: Path) -> None:
    """Print {"records": ..., "sum": ..., "executors": ...} as the last line."""
    settings = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
    }
    session = local_session(
        "cluster job", directory, master, settings, log_level="error", short_lived=True
    )
    servers = {"kafka.bootstrap.servers": bootstrap}
    stream = (
        session.readStream.format("kavka")
        .options(**servers, subscribe=topic, startingOffsets="earliest")
        .load()
    )
    writer = (
        stream.select("key", "value").writeStream.format("kavka").options(**servers, topic=copy)
    )
    query = (
        writer.option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise error
    copied = (
        session.read.format("kavka").options(**servers, subscribe=copy, minPartitions="4").load()
    )
    row = copied.selectExpr(
        "count(*) AS records", "sum(CAST(CAST(value AS STRING) AS BIGINT)) AS sum"
    ).first()
    assert row is not None
    executors = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    found = {"records": row["records"], "sum": row["sum"], "executors": len(executors) - 1}
    session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:5], Path(sys.argv[5]))  # type: ignore[arg-type, call-arg]
