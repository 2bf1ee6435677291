"""Recorded workloads while brokers are killed, judged by `kavka.testing.history`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.testing.history import Verdict
from kavka.testing.history.workload import Load, Settings
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import start_kavka
from kavka_compat.processes import free_port

_KILLS = max(int(os.environ.get("KAVKA_KILLS", "12")) // 4, 1)
_SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120 + 20 * _KILLS)]

Start = Callable[[], Broker]


def _judge(
    start: Start, kills: int, damage: Callable[[Broker], None] = lambda _: None, **chosen: object
) -> Verdict:
    """Kill and restart the broker `kills` times under load; `damage` it while it is dead."""
    broker = start()
    try:
        settings = Settings(broker.bootstrap, topic="t", **chosen)  # type: ignore[arg-type]
        with Load(settings) as load:
            for _ in range(kills):
                load.wait_for(300)
                time.sleep(random.uniform(0, 0.5))  # time: when it dies is chance
                broker.process.kill()
                damage(broker)
                broker = start()
            load.wait_for(300)
            return load.finish()
    finally:
        broker.process.stop()


@pytest.mark.parametrize(  # kafka-python leaks sockets
    "client", [pytest.param("confluent", marks=pytest.mark.long), "kavka"]
)
def test_killing_kavka_causes_no_forbidden_anomaly(tmp_path: Path, client: str) -> None:
    port = free_port()
    verdict = _judge(lambda: start_kavka(tmp_path, _SETTINGS, port), _KILLS, client=client)
    assert verdict.passed, verdict.report()
    assert not verdict.unseen


@pytest.mark.long  # in `make test` test_transactions_under_kills does it, with a reader and a member
def test_killing_kavka_causes_no_anomaly_of_transactions(tmp_path: Path) -> None:
    port = free_port()
    settings = _SETTINGS | {"transaction.state.log.num.partitions": "1"}
    start = lambda: start_kavka(tmp_path, settings, port)  # noqa: E731
    verdict = _judge(start, _KILLS, client="kavka", producers=1, transactional=2)
    assert verdict.passed, verdict.report()
    assert verdict.counts["transactions committed"] > 0
    assert not verdict.unseen


@pytest.mark.long
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_killing_apache_kafka_causes_no_forbidden_anomaly(tmp_path: Path, release: str) -> None:
    kafka = ApacheKafka(release)
    # a broker that comes back waits until the controller has given up the session of the killed one
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    port = kafka.format_kraft(tmp_path, {**_SETTINGS, **quick})

    def start() -> Broker:
        broker = kafka.start_formatted(tmp_path, port, SMALL)
        broker.process.wait_for("Kafka Server started (", 60)
        return broker

    verdict = _judge(start, 1, client="confluent", producers=1, transactional=1)
    assert verdict.passed, verdict.report()


def _lose_the_end(broker: Broker) -> None:
    """Take the second half of the last segment of each partition away, as if it had never been written."""
    for directory in broker.log_directory.glob("t-*"):
        segment = max(directory.glob("*.log"))
        os.truncate(segment, segment.stat().st_size // 2)


def test_a_broker_that_loses_the_end_of_its_logs_is_found_out(tmp_path: Path) -> None:
    port = free_port()
    start = lambda: start_kavka(tmp_path, _SETTINGS, port)  # noqa: E731
    verdict = _judge(start, 1, _lose_the_end, client="confluent", timeout_seconds=8)
    assert not verdict.passed
    assert {"lost-write", "vanished-read"} & set(verdict.forbidden), verdict.report()
