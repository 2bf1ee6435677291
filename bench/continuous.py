"""Latency of a pipeline that runs all the time: from the send of an event until its effect can be read.

`python bench/continuous.py [--events N] [--rounds N] [--flows direct,table,view]`; `make bench-pipelines` runs it. A
broker of kavka and `kavka pipelines run --continuous` on local[2], each a process of its own, as users start them:

    direct   topic → topic, exactly once          until a read_committed reader (librdkafka) has the row
    table    topic → table → topic, exactly once  the same
    view     topic → table → view                 until the files of the view count the event

Each is a run of its own. Events are sent one at a time, with pauses by chance, after some that are not counted. The
phases of the batches are Spark's, from the topic of progress.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench", "tests/compat", "tests")]

from apache.results import print_now, write_results  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

from kavka.pipelines.project import make_project  # noqa: E402
from kavka_compat.ours import kavka_command, run_kavka  # noqa: E402
from kavka_compat.processes import end_with_parent  # noqa: E402
from support.spark.topic_filling import make_topic_at  # noqa: E402

WARM_UP = 20
PATIENCE_S = 180.0
HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


def records():
    topic = spark.readStream.format("kavka").option("kafka.bootstrap.servers", "{bootstrap}")
    topic = topic.option("subscribe", "in").option("startingOffsets", "earliest").load()
    return topic.select(F.col("key").cast("string").alias("key"), F.col("value").cast("string").alias("value"))


def sink():
    options = {{"kafka.bootstrap.servers": "{bootstrap}", "topic": "out"}}
    dp.create_sink("out", "kavka", options | {{"deliveryGuarantee": "exactly-once", "sinkId": "out"}})


"""
TABLE = """
@dp.table
def events():
    return records()


"""
GRAPHS = {
    "direct": """
sink()


@dp.append_flow(target="out", name="write")
def write():
    return records()
""",
    "table": TABLE
    + """
sink()


@dp.append_flow(target="out", name="write")
def write():
    return spark.readStream.table("events")
""",
    "view": TABLE
    + """
@dp.materialized_view
def totals():
    return spark.read.table("events").agg(F.count("*").alias("events"))
""",
}


@contextmanager
def running(project: Path, options: list[str]) -> Iterator[None]:
    """Run the pipeline for the body, in a process group of its own: the JVM must end with it.

    Where this process is killed, the pipeline gets SIGTERM, and ends its JVM.
    """
    command = kavka_command("pipelines", "run", "--continuous", "--project", str(project))
    with (project / "run.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--master", "local[2]", *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
        try:
            yield
            process.terminate()
            process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Reader:
    """Reads what the pipeline has written."""

    def __init__(self, bootstrap: str, project: Path, kind: str) -> None:
        settings = {"group.id": "bench", "isolation.level": "read_committed"}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "fetch.wait.max.ms": 20, **settings}
        )
        self._consumer.assign([TopicPartition("out", 0, 0)])
        self._tables = project / "storage" / "tables"
        self._kind = kind

    def has(self, number: int) -> bool:
        """Return whether the event of this number has arrived, after a short wait for it."""
        if self._kind == "view":
            time.sleep(0.02)
            return self._counted() > number
        message = self._consumer.poll(0.02)
        return message is not None and message.key() == str(number).encode()

    def _counted(self) -> int:
        import pyarrow.dataset

        try:
            files = [str(path) for path in self._tables.glob("totals/*.parquet")]
            [[found]] = pyarrow.dataset.dataset(files).to_table().to_pydict().values()
            return int(found)
        except (OSError, ValueError):
            return -1  # the view is being replaced

    def close(self) -> None:
        self._consumer.close()


def latencies(bootstrap: str, reader: Reader, events: int) -> list[float]:
    """Return the seconds of each event, without those of the warm-up."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    chance = random.Random(1)
    found = []
    for number in range(WARM_UP + events):
        time.sleep(chance.uniform(0.2, 1.2))
        sent = time.monotonic()
        producer.produce("in", b"x" * 100, str(number).encode())
        producer.flush()
        while not reader.has(number):
            if time.monotonic() - sent > PATIENCE_S:
                raise RuntimeError(f"the event {number} did not arrive in {PATIENCE_S:g} s")
        found.append(time.monotonic() - sent)
    return found[WARM_UP:]


def phases(bootstrap: str) -> dict[str, dict[str, list[int]]]:
    """Return the milliseconds of each phase of the batches that were published, by flow."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "phases"}
    consumer = Consumer(settings)
    found: dict[str, dict[int, dict[str, int]]] = {}
    try:
        at = TopicPartition("__kavka_pipelines", 0, 0)
        end = consumer.get_watermark_offsets(at, timeout=10)[1]
        consumer.assign([at])
        for message in consumer.consume(end, timeout=10):
            value = json.loads(message.value() or b"{}")
            if value.get("phases_ms", {}).get("addBatch"):
                found.setdefault(value["flow"], {})[value["batch_id"]] = value["phases_ms"]
    finally:
        consumer.close()
    by_flow: dict[str, dict[str, list[int]]] = {}
    for flow, batches in found.items():
        last = [batch for number, batch in sorted(batches.items()) if number > WARM_UP]
        names = sorted({name for batch in last for name in batch})
        by_flow[flow] = {name: [batch.get(name, 0) for batch in last] for name in names}
    return by_flow


def measure(kind: str, events: int, options: list[str]) -> tuple[list[float], Any]:
    """Run a graph once; return its latencies, and the phases of its batches."""
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as name:
        directory = Path(name)
        (directory / "broker").mkdir()
        with run_kavka(directory / "broker") as broker:
            for topic in ("in", "out"):
                make_topic_at(broker.bootstrap, topic, 1)
            project = directory / "latency"
            make_project(project, "blank", broker.bootstrap)
            for path in project.glob("transformations/*"):
                path.unlink()
            code = HEAD.format(bootstrap=broker.bootstrap) + GRAPHS[kind]
            (project / "transformations" / "graph.py").write_text(code)
            reader = Reader(broker.bootstrap, project, kind)
            try:
                with running(project, options):
                    found = latencies(broker.bootstrap, reader, events)
                return found, phases(broker.bootstrap)
            except RuntimeError:
                print((project / "run.log").read_text())
                raise
            finally:
                reader.close()


def line(kind: str, found: list[float]) -> str:
    """Return median, 90 % and longest in a line."""
    ordered = sorted(found)
    ninety = ordered[min(len(ordered) - 1, round(len(ordered) * 0.9))]
    median = statistics.median(ordered)
    return f"{kind:8} {median:8.2f} {ninety:8.2f} {ordered[-1]:8.2f} {len(ordered):8}"


def main() -> None:
    """Print a line for each round and graph, and the medians of the phases."""
    parser = argparse.ArgumentParser(description="latency of a pipeline that runs all the time")
    parser.add_argument("--events", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flows", default="direct,table,view")
    parser.add_argument("--option", action="append", default=[], help="of `kavka pipelines run`")
    given = parser.parse_args()
    samples: dict[str, list[list[float]]] = {}
    by_phase: dict[str, Any] = {}
    print(f"{'':8} {'median s':>8} {'90 %':>8} {'longest':>8} {'events':>8}")
    for number in range(given.rounds):
        for kind in given.flows.split(","):
            print_now(f"round {number + 1}, load {os.getloadavg()[0]:.1f}")
            found, by_phase[kind] = measure(kind, given.events, given.option)
            samples.setdefault(kind, []).append(found)
            print(line(kind, found), flush=True)
    for kind, flows in by_phase.items():
        for flow, times in flows.items():
            medians = {name: round(statistics.median(ms)) for name, ms in times.items() if ms}
            print(f"{kind} {flow}, ms: {medians}")
    note = f"local[2], {given.events} events a round, {' '.join(given.option)}".strip(", ")
    measured = {"samples": samples, "phases": by_phase, "note": note}
    print(f"all samples: {write_results('continuous', given.rounds, False, measured)}")


if __name__ == "__main__":
    main()
