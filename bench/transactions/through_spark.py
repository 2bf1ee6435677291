"""Spark: our exactly-once sink at kavka beside Spark's own connector, at least once, at Apache Kafka."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from apache.report import Line
from apache.rounds import run_rounds
from apache.topics import run_topic
from confluent_kafka import Consumer, Producer, TopicPartition

from kavka.spark.session import local_session
from kavka_compat.brokers import Broker
from support.spark.spark_connector import connector_jars
from transactions.pair import SIDES

VALUE_BYTES = 100
BATCHES = 4
_PARTITIONS = 2
_FORMATS = {"apache": "kafka", "kavka": "kavka"}
_PER_SECOND = 20
_WARM_UP_S = 15
"""Seconds after the first copy in which records do not count: the first batches load classes and modules."""
_PATIENCE_S = 120
_runs = count()


@dataclass(frozen=True)
class Speed:
    """The result of one run of the sink."""

    records_per_second: float


@dataclass(frozen=True)
class Latency:
    """The result of one run of a job."""

    median_ms: float
    last_hundredth_ms: float

    @property
    def records_per_second(self) -> float:
        """The pace at which the job was fed."""
        return _PER_SECOND


class ThroughSpark:
    """One session, and what runs in it."""

    def __init__(self, directory: Path, brokers: dict[str, Broker], rows: int) -> None:
        """Start Spark, and make rows: as files for streams, in memory for data frames."""
        self._directory = directory
        self._brokers = brokers
        self._rows = rows
        jars = ",".join(map(str, connector_jars()))
        self._spark = local_session(
            "transactions", directory / "spark", settings={"spark.jars": jars}
        )
        value = f"CAST(lpad(CAST(id AS STRING), {VALUE_BYTES}, 'x') AS BINARY) AS value"
        frame = self._spark.range(0, rows, 1, BATCHES * _PARTITIONS).selectExpr(value)
        self._files = str(directory / "rows")
        frame.write.parquet(self._files)
        self._frame = frame.coalesce(_PARTITIONS).cache()
        self._frame.count()

    def stop(self) -> None:
        """End the session."""
        self._spark.stop()

    # -- the sink's speed

    def sink(self, rounds: int) -> list[Line]:
        """Return the lines of writing: a stream of micro-batches, and a data frame."""
        lines = []
        for name, write in (("stream", self._write_stream), ("data frame", self._write_frame)):
            about = f"Spark, {name} written: exactly once, beside Spark's at least once"
            samples = run_rounds(about, SIDES, rounds, write)
            speed = {side: [s.records_per_second for s in samples[side]] for side in SIDES}
            lines.append(Line(about, "rows/s", speed, goal=1.0, more_is_better=True))
        return lines

    def _write_stream(self, side: str) -> Speed:
        """Write the files in a few micro-batches; the time is that of the triggers, without the query's start."""
        frame = (
            self._spark.readStream.schema("value BINARY")
            .option("maxFilesPerTrigger", _PARTITIONS)
            .parquet(self._files)
        )
        with run_topic(self._brokers[side], "sink", _PARTITIONS) as topic:
            writer = frame.writeStream.format(_FORMATS[side]).options(**self._sink(side, topic))
            checkpoint = str(self._directory / f"checkpoint-{next(_runs)}")
            query = (
                writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            )
            query.awaitTermination()
            reports = [json.loads(progress.json) for progress in query.recentProgress]
            written = sum(report["numInputRows"] for report in reports)
            if written != self._rows:
                raise RuntimeError(f"{written} rows were written")
        took_ms = sum(report["durationMs"]["triggerExecution"] for report in reports)
        return Speed(self._rows / took_ms * 1000)

    def _write_frame(self, side: str) -> Speed:
        with run_topic(self._brokers[side], "frame", _PARTITIONS) as topic:
            started = time.perf_counter()
            writer = self._frame.write.format(_FORMATS[side]).mode("append")
            writer.options(**self._sink(side, topic)).save()
            return Speed(self._rows / (time.perf_counter() - started))

    def _sink(self, side: str, topic: str) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self._brokers[side].bootstrap, "topic": topic}
        if side == "kavka":
            options |= {"deliveryGuarantee": "exactly-once", "sinkId": f"sink-of-{topic}"}
        return options

    # -- from topic to topic

    def latency(self, records: int, rounds: int) -> list[Line]:
        """Return the lines of a job's latency: from a record's time until its copy is read as committed."""
        about = "Spark, from topic to topic, exactly once beside at least once"
        samples = run_rounds(about, SIDES, rounds, lambda side: self._latency(side, records))
        median = {side: [s.median_ms for s in samples[side]] for side in SIDES}
        last = {side: [s.last_hundredth_ms for s in samples[side]] for side in SIDES}
        return [
            Line(f"{about}: latency, median", "ms", median, goal=1.0),
            Line(f"{about}: latency, 99th percentile", "ms", last, goal=1.0),
        ]

    def _latency(self, side: str, records: int) -> Latency:
        broker = self._brokers[side]
        with (
            run_topic(broker, "in", _PARTITIONS) as source,
            run_topic(broker, "out", _PARTITIONS) as target,
            self._copying(side, source, target),
        ):
            taken = _latencies_ms(broker.bootstrap, source, target, records)
        hundredths = statistics.quantiles(taken, n=100)
        return Latency(hundredths[49], hundredths[98])

    @contextmanager
    def _copying(self, side: str, source: str, target: str) -> Iterator[None]:
        """Run a query that copies records, one micro-batch after the other without a pause."""
        form, broker = _FORMATS[side], self._brokers[side]
        rows = (
            self._spark.readStream.format(form)
            .options(**{"kafka.bootstrap.servers": broker.bootstrap}, subscribe=source)
            .option("startingOffsets", "earliest")
            .load()
            .select("key", "value")
        )
        checkpoint = str(self._directory / f"checkpoint-{next(_runs)}")
        writer = rows.writeStream.format(form).options(**self._sink(side, target))
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield
            failure = query.exception()
            if failure is not None:
                raise failure
        finally:
            query.stop()


def _latencies_ms(bootstrap: str, source: str, target: str, records: int) -> list[float]:
    """Send records at a steady pace; return for how long the last `records` were under way, in their order.

    The first of those is sent `_WARM_UP_S` after the first copy came.
    """
    at = {"bootstrap.servers": bootstrap}
    taken: dict[int, float] = {}
    settings = {"group.id": "latency", "isolation.level": "read_committed"}
    deadline = time.monotonic() + _PATIENCE_S + _WARM_UP_S + records / _PER_SECOND
    first, counts_from = None, math.inf
    with Producer({**at, "linger.ms": 0}) as producer, Consumer({**at, **settings}) as consumer:
        consumer.assign([TopicPartition(target, n, 0) for n in range(_PARTITIONS)])
        sent, next_ns = 0, time.time_ns()
        while first is None or len(taken) < first + records:
            now = time.monotonic()
            if now > deadline:
                raise RuntimeError(f"{len(taken)} of {sent} records came out of the job")
            if first is None and now >= counts_from:
                first = sent
            if (first is None or sent < first + records) and time.time_ns() >= next_ns:
                producer.produce(source, f"{sent} {time.time_ns()}")
                sent, next_ns = sent + 1, next_ns + 1_000_000_000 // _PER_SECOND
            producer.poll(0)
            message = consumer.poll(0.005)
            if message is None:
                continue
            if message.error():
                raise RuntimeError(str(message.error()))
            number, sent_ns = map(int, (message.value() or b"").split())
            taken.setdefault(number, (time.time_ns() - sent_ns) / 1e6)
            counts_from = min(counts_from, now + _WARM_UP_S)
        producer.flush(10)
    return [taken[number] for number in range(first, first + records)]
