"""The programs of examples/ do what their READMEs say, beside a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.client import TopicPartition
from kavka.client.blocking import Consumer, Producer
from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.compat


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own: examples have fixed topics."""
    with run_kavka(tmp_path / "broker") as broker:
        yield broker


def run(folder: str, *words: str, bootstrap: str = "") -> list[str]:
    """Run a program of an example to its end, and return its lines."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=EXAMPLES / folder,
        env={**os.environ, "KAVKA_BOOTSTRAP_SERVERS": bootstrap, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", ["blocking.py", "with_asyncio.py"])
def test_orders_are_written_and_read(program: str, broker: Broker) -> None:
    printed = run("producer-consumer", program, bootstrap=broker.bootstrap)
    assert printed == [f"order {number}" for number in range(10)]


ALONE = (
    *("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", "."),
    *("-p", "no:cacheprovider", "-p", "kavka.testing.plugin"),
)


def test_the_tests_of_the_application_pass() -> None:
    assert "3 passed" in run("testing-an-application", *ALONE, "-W", "error", ".")[-1]


def test_the_tests_of_applications_of_other_clients_pass() -> None:
    files = ("test_confluent_kafka.py", "test_aiokafka.py", "test_kafka_python.py")
    assert "4 passed" in run("testing-other-clients", *ALONE, *files)[-1]


def test_numbers_are_doubled_once_also_when_the_copy_runs_again(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    written = 0
    for _ in range(2):
        with Producer(settings) as producer:
            for number in range(written, written + 50):
                producer.append("numbers", b"%d" % number)
            producer.flush()
        written += 50
        run("exactly-once-copy", "copy_topic.py", bootstrap=broker.bootstrap)
    assert doubled(settings) == [2 * number for number in range(written)]


def doubled(settings: dict[str, str]) -> list[int]:
    """Return the committed records of the copy."""
    reading = settings | {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    partition = TopicPartition("doubled", 0)
    found: list[int] = []
    with Consumer(reading) as consumer:
        consumer.assign([partition])
        (stop,) = consumer.end_offsets([partition]).values()
        while consumer.position(partition) < stop:
            for batch in consumer.poll(1000):
                found += [int(record.value) for record in batch.records()]
    return sorted(found)
