"""The connector on clusters: executors in processes of their own find it, unpickle it and reach the broker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from confluent_kafka import Producer
from topic_filling import make_topic

import kavka

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(240)]

SPARK_HOME = Path(pyspark.__file__).parent
SOURCES = Path(kavka.__file__).parents[1]
RECORDS = 1000


def environment() -> dict[str, str]:
    found = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCES),
        "SPARK_WORKER_OPTS": "-XX:TieredStopAtLevel=1",
    }
    return os.environ | found


def copy_on(master: str, broker: Broker, name: str, directory: Path) -> dict[str, int]:
    """Run the job against a fresh topic of the numbers below RECORDS."""
    for topic in (name, f"{name}-copy"):
        make_topic(broker, topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % 2)
    assert producer.flush(30) == 0
    job = [sys.executable, str(Path(__file__).with_name("cluster_job.py"))]
    arguments = [master, broker.bootstrap, name, f"{name}-copy", str(directory / "job")]
    ran = subprocess.run(
        [*job, *arguments], env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_a_stream_and_a_batch_run_on_two_local_executors(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    found = copy_on("local-cluster[2,1,1024]", kavka_broker, fresh_name, tmp_path)
    assert found == {"records": RECORDS, "sum": sum(range(RECORDS)), "executors": 2}


def test_a_stream_and_a_batch_run_on_a_standalone_master_with_two_workers(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = stack.enter_context(
            spark_process("master.Master", arguments, tmp_path / "master.log")
        )
        master = wait_for(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number in range(2):
            directory = tmp_path / f"worker-{number}"
            arguments = [
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
            ]
            arguments += ["--work-dir", str(directory), master]
            log = stack.enter_context(
                spark_process("worker.Worker", arguments, tmp_path / f"worker-{number}.log")
            )
            wait_for(log, "Successfully registered with master")
        found = copy_on(master, kavka_broker, fresh_name, tmp_path)
    assert found == {"records": RECORDS, "sum": sum(range(RECORDS)), "executors": 2}


@contextmanager
def spark_process(name: str, arguments: list[str], log: Path) -> Iterator[Path]:
    """Run a daemon of Spark's standalone mode with its log in a file."""
    command = [
        str(SPARK_HOME / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{name}",
        *arguments,
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=environment(), stdout=file, stderr=file, stdin=subprocess.DEVNULL
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def wait_for(log: Path, pattern: str) -> str:
    """Return the first group of a pattern, or the match, once it is in the log."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1] if found.groups() else found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in:\n{log.read_text(errors='replace')}")
