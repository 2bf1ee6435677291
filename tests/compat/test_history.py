"""`python -m kavka.testing.history` through three client libraries finds nothing that the protocol forbids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kavka.testing.history import Verdict, check, read_lines
from kavka.testing.history.workload import CLIENTS
from kavka_compat.brokers import Broker

pytestmark = pytest.mark.compat


def judge(directory: Path, broker: Broker, client: str, topic: str, *options: str) -> Verdict:
    """Run the command, which must find nothing, and judge its history once more."""
    history = directory / "history.jsonl"
    command = [sys.executable, "-m", "kavka.testing.history", "--bootstrap", broker.bootstrap]
    command += ["--client", client, "--topic", topic, "--output", str(history), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("verdict: no forbidden anomaly\n")
    _, events = read_lines(history.read_text().splitlines())
    return check(events)


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_healthy_broker_shows_no_forbidden_anomaly(
    tmp_path: Path, any_broker: Broker, fresh_name: str, client: str
) -> None:
    verdict = judge(tmp_path, any_broker, client, fresh_name, "--seconds", "3")
    assert verdict.passed
    assert verdict.counts["sends ok"] > 300
    assert verdict.counts["records scanned"] == verdict.counts["sends ok"]
    assert verdict.counts["records polled"] > 300
    assert not verdict.unseen


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_transactions_show_no_forbidden_anomaly(
    tmp_path: Path, kavka_broker: Broker, fresh_name: str, client: str
) -> None:
    options = ("--seconds", "4", "--producers", "1", "--transactional", "2")
    verdict = judge(tmp_path, kavka_broker, client, fresh_name, *options)
    assert verdict.passed
    assert verdict.counts["transactions committed"] > 5


@pytest.mark.parametrize(
    "client",
    [
        pytest.param("confluent", marks=pytest.mark.long, id="apache-confluent"),
        pytest.param("kafka-python", marks=pytest.mark.long, id="apache-kafka-python"),
        pytest.param("kavka", id="apache-kavka"),
    ],
)
def test_transactions_at_apache_kafka_show_none(
    tmp_path: Path, apache_kafka: Broker, fresh_name: str, client: str
) -> None:
    options = ("--seconds", "4", "--producers", "1", "--transactional", "2")
    verdict = judge(tmp_path, apache_kafka, client, fresh_name, *options)
    assert verdict.passed
    assert verdict.counts["transactions committed"] > 5
