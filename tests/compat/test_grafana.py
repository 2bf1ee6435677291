"""Dashboards and alert rules on a Prometheus that scrapes two brokers and a page of groups, with clients at work."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.cli.commands.monitoring import RULES_FILE
from kavka.monitoring.brokers import BROKERS
from kavka.monitoring.topics import GROUPS, TOPICS
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from kavka_compat.prometheus import Prometheus, program, run_prometheus
from support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(900)]


@contextmanager
def running(directory: Path, *words: str) -> Iterator[Running]:
    process = Running(kavka_command(*words), directory / f"{words[0]}.out")
    try:
        yield process
    finally:
        process.stop()


class Clients:
    """A transactional producer and a group, at work in threads until the end."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce),
            threading.Thread(target=self._consume),
        ]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": "shop"})
        producer.init_transactions(60)
        while not self._stop.is_set():
            producer.begin_transaction()
            for number in range(20):
                producer.produce("orders", b"%d" % number * 50)
            producer.commit_transaction(60)
            self._stop.wait(0.1)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "billing"}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        while not self._stop.is_set():
            if consumer.consume(50, timeout=0.2):
                consumer.commit(asynchronous=False)
        consumer.close()


@contextmanager
def scraped_cluster(directory: Path) -> Iterator[tuple[str, Prometheus]]:
    """Run two brokers, `group-metrics` and Prometheus with the rules; yield where the brokers are, and Prometheus."""
    port, metrics = free_port(), free_port()
    rules = directory / "monitoring"
    subprocess.run(kavka_command("monitoring", "--directory", str(rules)), check=True, timeout=60)
    broker = [
        "server-start", "--workers", "2",
        "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}",
        "--override", f"log.dirs={directory / 'logs'}",
        "--override", f"kavka.metrics.port={metrics}",
    ]  # fmt: skip
    with running(directory, *broker) as brokers:
        brokers.wait_for("ready: ", 120)
        bootstrap = f"127.0.0.1:{port}"
        watched = (
            "group-metrics",
            "--bootstrap-server",
            bootstrap,
            "--port",
            "0",
            "--interval",
            "1",
        )
        with running(directory, *watched) as groups:
            url = groups.wait_for("group metrics at", 60)
            own = re.search(r":(\d+)/metrics", url)
            assert own is not None
            targets = [f"127.0.0.1:{each}" for each in (metrics, metrics + 1, own[1])]
            scrape = f"job_name: kavka\nstatic_configs:\n  - targets: {json.dumps(targets)}\n"
            with run_prometheus(directory, scrape, rules / RULES_FILE) as prometheus:
                yield bootstrap, prometheus


def test_every_panel_has_data_and_no_rule_fires_while_all_is_well(tmp_path: Path) -> None:
    with scraped_cluster(tmp_path) as (bootstrap, prometheus):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 4, 2)])["orders"].result(60)
        with Clients(bootstrap):
            for dashboard in (BROKERS, TOPICS, GROUPS):
                missing = partial(prometheus.panels_without_data, dashboard)
                wait_until(
                    lambda missing=missing: not missing(),
                    120,
                    lambda missing=missing: str(missing()),
                )
            rules = prometheus.rules()
            assert {rule["health"] for rule in rules} == {"ok"}
            assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
            assert len(prometheus.query('up{job="kavka"} == 1')) == 3


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    subprocess.run(
        kavka_command("monitoring", "--directory", str(tmp_path)), check=True, timeout=60
    )
    done = subprocess.run(
        [str(program("promtool")), "check", "rules", str(tmp_path / RULES_FILE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout
