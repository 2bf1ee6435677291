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

from kavka.cli.commands.monitoring import RULES_FILE, files
from kavka.ids import TopicPartition
from kavka.metrics.server import MetricsServer
from kavka.monitoring.brokers import BROKERS
from kavka.monitoring.panels import Dashboard
from kavka.monitoring.topics import GROUPS, PIPELINES, TOPICS
from kavka.spark.queries.flow_progress import PartitionLag, ProgressTable
from kavka.spark.queries.metrics import families
from kavka.spark.queries.reports import QueryReports
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running
from kavka_compat.prometheus import Prometheus, program, run_prometheus
from support.waiting import wait_until

PROGRESS = {
    "id": "d1e121a1-4bd5",
    "name": "orders",
    "batchId": 0,
    "numInputRows": 10,
    "durationMs": {"triggerExecution": 500, "addBatch": 300},
    "sources": [{"endOffset": {"in": {"0": 12}}}],
    "sink": {"numOutputRows": 10},
}

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
    rules = directory / "monitoring"
    subprocess.run(kavka_command("monitoring", "--directory", str(rules)), check=True, timeout=60)
    broker = [
        "server-start", "--workers", "2",
        "--override", "listeners=PLAINTEXT://127.0.0.1:0",
        "--override", f"log.dirs={directory / 'logs'}",
        "--override", "kavka.metrics.port=0",
    ]  # fmt: skip
    with running(directory, *broker) as brokers:
        ready = re.search(r"ready: PLAINTEXT://([\d.:]+)", brokers.wait_for("ready: ", 120))
        assert ready is not None
        bootstrap = ready[1]
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
            pages = re.findall(r"metrics served url=http://([\d.:]+)", brokers.text())
            targets = [*pages, f"127.0.0.1:{own[1]}"]
            assert len(targets) == 3
            scrape = f"job_name: kavka\nstatic_configs:\n  - targets: {json.dumps(targets)}\n"
            with run_prometheus(directory, scrape, rules / RULES_FILE) as prometheus:
                yield bootstrap, prometheus


def wait_for_panels(prometheus: Prometheus, dashboard: Dashboard) -> None:
    """Wait until every query of a dashboard finds something, but for those that need an event."""
    missing = partial(prometheus.panels_without_data, dashboard)
    wait_until(lambda: not missing(), 120, lambda: str(missing()))


def queries_of_the_guide() -> list[str]:
    """Return the queries of the graphs in docs/how-to/monitor.md."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md").read_text()
    table = text.partition("| graph | PromQL |")[2].partition("\n\n")[0]
    return re.findall(r"^\| [^`|]+ \| `([^`]+)`", table, re.MULTILINE)


def test_every_panel_has_data_and_no_rule_fires_while_all_is_well(tmp_path: Path) -> None:
    with scraped_cluster(tmp_path) as (bootstrap, prometheus):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 4, 2)])["orders"].result(60)

        def empty(queries: list[str]) -> list[str]:
            # No response has an error while all is well.
            found = (each for each in queries if not prometheus.query(each))
            return [each for each in found if "errors_total" not in each]

        with Clients(bootstrap):
            for dashboard in (BROKERS, TOPICS, GROUPS):
                wait_for_panels(prometheus, dashboard)
            queries = queries_of_the_guide()
            assert len(queries) >= 8
            wait_until(lambda: not empty(queries), 120, lambda: str(empty(queries)))
            rules = prometheus.rules()
            assert {rule["health"] for rule in rules} == {"ok"}
            assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
            assert len(prometheus.query('up{job="kavka"} == 1')) == 3


def test_every_panel_of_pipelines_has_data_on_a_page_of_progress(tmp_path: Path) -> None:
    """The progress is as Spark reports it; tests/spark/test_listener.py takes it from Spark."""
    table = ProgressTable("shop")
    reports = QueryReports(table)
    reports.started("d1e121a1-4bd5", "orders", 1_000)
    reports.batch(PROGRESS, 2_000)
    table.lags("orders", {TopicPartition("in", 0): PartitionLag(5, 1.5)})
    with MetricsServer(0, lambda: families(table)) as server:
        scrape = f"job_name: p\nstatic_configs:\n  - targets: ['127.0.0.1:{server.port}']\n"
        with run_prometheus(tmp_path, scrape) as prometheus:
            wait_for_panels(prometheus, PIPELINES)
            lag = prometheus.query("max by (flow) (kavka_pipeline_lag_seconds)")
            assert [(row["flow"], row["value"]) for row in lag] == [("orders", "1.5")]


@pytest.mark.parametrize("name", [name for name in files() if name.endswith(".json")])
def test_grafanas_own_library_reads_every_field_of_a_dashboard(name: str) -> None:
    from grafana_foundation_sdk.models import dashboard

    given = json.loads(files()[name])
    read = dashboard.Dashboard.from_json(given)
    again = json.loads(json.dumps(read.to_json(), default=lambda part: part.to_json()))
    assert list(lost(given, again)) == []
    assert read.title


def lost(given: object, again: object, path: str = "") -> Iterator[str]:
    """Yield the paths of what is not in `again` as it is in `given`; more may be there."""
    if isinstance(given, dict):
        for key, value in given.items():
            known = again.get(key) if isinstance(again, dict) else None
            yield from lost(value, known, f"{path}/{key}")
    elif isinstance(given, list) and isinstance(again, list) and len(given) == len(again):
        for place, (value, known) in enumerate(zip(given, again, strict=True)):
            yield from lost(value, known, f"{path}/{place}")
    elif given != again:
        yield f"{path}: {given!r}, {again!r}"


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
