"""The connector on clusters: executors in processes of their own find it, unpickle it and reach the broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from support.spark.standalone import environment, run_standalone
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(240)]

RECORDS = 1000


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


# Long: on a standalone master with workers, test_worker_archive runs a stream and a batch exactly once, and
# test_exactly_once_clusters kills them.


@pytest.mark.long
def test_a_stream_and_a_batch_run_on_two_local_executors(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    found = copy_on("local-cluster[2,1,1024]", kavka_broker, fresh_name, tmp_path)
    assert found == {"records": RECORDS, "sum": sum(range(RECORDS)), "executors": 2}


@pytest.mark.long
def test_a_stream_and_a_batch_run_on_a_standalone_master_with_two_workers(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    with run_standalone(tmp_path / "spark") as cluster:
        found = copy_on(cluster.url, kavka_broker, fresh_name, tmp_path)
    assert found == {"records": RECORDS, "sum": sum(range(RECORDS)), "executors": 2}
