"""Jobs of one Spark session in a program that tests kill: `python exactly_once_job.py <directory> <master> <settings>`.

Each line of its input is a `Job` as JSON. It answers with a file `<watch>/result`: 0 when all that was there is
written, 3 when the query failed; the connector's sentence is the last line of its output then.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kavka.spark.errors import sentence_of
from kavka.spark.session import local_session
from support.spark.watched_lake import WatchedIcebergDataSource
from support.spark.watched_sink import WatchedDataSource

FAILED = 3
IN_SMALL_PIECES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
    "spark.sql.execution.pandas.udf.buffer.size": "1024",
}
"""Settings with which Spark hands a task's first rows to a sink before it has the last ones."""


@dataclass(frozen=True)
class Job:
    """The parameters of a job."""

    bootstrap: str
    source: str
    target: str
    checkpoint: str
    watch: str
    """The directory of `watched_sink`."""
    transform: str = "copy"
    per_trigger: int = 400
    read: dict[str, str] = field(default_factory=dict)
    write: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Of the session, as long as the job runs."""
    restarts: int = 0
    """Number of times that the query is started again in the same session when it has failed."""
    until: str = ""
    """A file: the query is started again, whatever its end, until this is there and all is written."""
    is_batch: bool = False
    """Write all of the source as one data frame, instead of a stream."""
    lake: str = ""
    """The warehouse of a lake; then `target` is a table of it, and no topic."""

    def text(self) -> str:
        """Return the argument of the program."""
        return json.dumps(asdict(self))


def copy(rows: DataFrame) -> DataFrame:
    """Each record once."""
    return rows.select("key", "value")


def shuffled(rows: DataFrame) -> DataFrame:
    """Each record once, by tasks that hold keys: `spark.sql.shuffle.partitions` of them."""
    return rows.select("key", "value").repartition("key")


def lake_rows(rows: DataFrame) -> DataFrame:
    """Each record once, with where it comes from, in a task that is drawn again each time the batch is run."""
    columns = ("value", "topic", "partition", "offset")
    return rows.select(*columns, F.col("timestamp").alias("event_time")).repartition(2, F.rand())


def random_split(rows: DataFrame) -> DataFrame:
    """Each record once, in a task that is drawn again each time the batch is run."""
    return rows.select("key", "value").repartition(2, F.rand())


def word_count(rows: DataFrame) -> DataFrame:
    """Return how often each word has come: all words with each batch."""
    words = rows.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
    counts = words.groupBy("word").count()
    return counts.select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))


def enriched(rows: DataFrame) -> DataFrame:
    """Each record once, with a number between 0 and 2 that is drawn again each time the batch is run."""
    drawn = F.floor(F.rand() * 3).cast("string")
    return rows.select("key", F.concat_ws(":", F.col("value").cast("string"), drawn).alias("value"))


def failing_at_times(rows: DataFrame) -> DataFrame:
    """Each record once; each task fails at its first attempt, when the sink has some of its rows, IN_SMALL_PIECES."""

    def pass_on(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("as the test wants it")

    narrowed = rows.select("key", "value")
    return narrowed.mapInArrow(pass_on, narrowed.schema)


def sometimes_nothing(rows: DataFrame) -> DataFrame:
    """Only the records whose number ends in 7, of the first partition: most tasks, and some batches, have none."""
    number = F.col("value").cast("string").cast("long")
    return rows.where((F.col("partition") == 0) & (number % 1000 < 100)).select("key", "value")


TRANSFORMS = {
    each.__name__: each
    for each in (copy, shuffled, lake_rows, random_split, word_count, enriched, failing_at_times, sometimes_nothing)
}  # fmt: skip


def target_of(job: Job) -> tuple[str, dict[str, str]]:
    """Return the format of the target, and its options."""
    if job.lake:
        to = {"table": job.target, "catalog.warehouse": job.lake, "partitionBy": "day(event_time)"}
        return "kavka-iceberg-watched", to
    servers = {"kafka.bootstrap.servers": job.bootstrap}
    to = {**servers, "topic": job.target, "deliveryGuarantee": "exactly-once"}
    return "kavka-watched", to


def write(session: SparkSession, job: Job) -> None:
    """Write what is there now."""
    servers = {"kafka.bootstrap.servers": job.bootstrap}
    form, to = target_of(job)
    to |= {"watch": job.watch, **job.write}
    transform = TRANSFORMS[job.transform]
    if job.is_batch:
        rows = session.read.format("kavka").options(**servers, subscribe=job.source).load()
        transform(rows).write.format(form).options(**to).mode("append").save()
        return
    rows = (
        session.readStream.format("kavka")
        .options(**servers, subscribe=job.source, startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=str(job.per_trigger), **job.read)
        .load()
    )
    (
        transform(rows)
        .writeStream.format(form)
        .outputMode("complete" if job.transform == "word_count" else "append")
        .options(**to)
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def run(session: SparkSession, job: Job) -> int:
    """Run a job to its end."""
    failures = 0
    while True:
        is_last = not job.until or Path(job.until).exists()
        try:
            write(session, job)
        except OSError:
            raise  # there is no JVM any more
        except Exception as error:  # noqa: BLE001  whatever it is, the test wants to read it
            print(error, file=sys.stderr)
            print(sentence_of(error) or type(error).__name__, flush=True)
            failures += 1
            if not job.until and failures > job.restarts:
                return FAILED
        else:
            if is_last:
                return 0


def main(directory: Path, master: str, settings: dict[str, str]) -> None:
    """Run jobs until the input ends."""
    session = local_session("exactly once", directory, master, settings, "off", short_lived=True)
    session.dataSource.register(WatchedDataSource)
    session.dataSource.register(WatchedIcebergDataSource)
    for line in sys.stdin:
        job = Job(**json.loads(line))
        for name, value in job.settings.items():
            session.conf.set(name, value)
        code = run(session, job)
        for name in job.settings:
            session.conf.unset(name)
        response = Path(job.watch, "result")
        response.with_suffix(".partial").write_text(str(code))
        response.with_suffix(".partial").rename(response)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
