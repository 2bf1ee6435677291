"""Runs the example of the Spark page for output mode update; kills itself, with its JVM, at the wish of a test.

`python update_mode_job.py <bootstrap> <directory> <before|after> <number of the write, 0 for none>`
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter

from kavka.spark.session import local_session

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "spark.md"


def example() -> str:
    """Return the block of the document."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if "foreachBatch" in block]
    return str(found)


def kill_at(moment: str, number: int) -> None:
    """Have all processes of this job killed before or after a write."""
    save, seen = DataFrameWriter.save, [0]

    def saving(writer: DataFrameWriter, *given: Any, **named: Any) -> None:
        seen[0] += 1
        if (moment, number) == ("before", seen[0]):
            os.killpg(0, signal.SIGKILL)
        save(writer, *given, **named)
        if (moment, number) == ("after", seen[0]):
            os.killpg(0, signal.SIGKILL)

    DataFrameWriter.save = saving


def main(bootstrap: str, directory: Path, moment: str, number: int) -> None:
    """Count what is there, 20 records in a batch."""
    session = local_session("update", directory / "spark", log_level="off", short_lived=True)
    kill_at(moment, number)
    rows = (
        session.readStream.format("kavka")
        .option("kafka.bootstrap.servers", bootstrap)
        .options(subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger="20")
        .load()
    )
    key = (F.col("value").cast("string").cast("long") % 5).cast("string").alias("key")
    text = example().replace("/data/checkpoints/counts", str(directory / "checkpoint"))
    names = {"counts": rows.groupBy(key).count(), "servers": bootstrap}
    exec(compile(text, str(DOCUMENT), "exec"), names)
    names["query"].processAllAvailable()
    names["query"].stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
