"""A project made from a template: checked, run once and again, kept running, watched from elsewhere, set back, reset.

Spark itself is the judge: it takes the project, its tables are read as files, the topics by librdkafka.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.spark.pipeline_commands import QUICK, run_process, run_stock
from support.spark.standalone import bare_python, environment, run_standalone, unpacked
from support.spark.topic_filling import make_topic_at
from support.waiting import wait_until

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(300)]

ONE = ("--master", "local[1]", "--conf", QUICK)
PATIENCE_S = 240
LIVES = 3
"""Runs of a project of which all but the last are killed."""
TOOL = """
import json, sys
from kavka.cli.main import main
for line in sys.stdin:
    try:
        code = main(json.loads(line))
    except SystemExit as exit:
        code = exit.code
    print(f"\\nexit {code}", flush=True)
"""


class Tool:
    """Commands in one process, which starts Spark's JVM once; what they print is in a file."""

    def __init__(self, directory: Path) -> None:
        self._output = directory / "output"
        self._file = self._output.open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-c", TOOL],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start(self, *arguments: str) -> int:
        """Begin a command; return where its output begins."""
        self._file.seek(0, 2)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(["pipelines", *arguments]) + "\n")
        self.process.stdin.flush()
        return self._output.stat().st_size

    def wait(self, position: int) -> tuple[int, str]:
        """Return the exit code of the command that was begun there, and what it printed."""

        def text() -> str:
            return self._output.read_text()[position:]

        def has_ended() -> bool:
            _said, found, code = text().rpartition("\nexit ")
            is_over = bool(found) and code.endswith("\n")
            assert is_over or self.process.poll() is None, text()
            return is_over

        wait_until(has_ended, PATIENCE_S, text)
        said, _found, code = text().rpartition("\nexit ")
        return int(code), said

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found, said = self.wait(self.start(*arguments))
        assert found == code, said
        return said

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._file.close()


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    """One for each test: a JVM that has opened the catalogue of a project keeps it."""
    made = Tool(tmp_path)
    yield made
    made.stop()


def send(bootstrap: str, topic: str, *events: tuple[str, int]) -> None:
    """Send requests of users with their status."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, status in events:
        value = json.dumps({"user": user, "page": f"/{user}", "status": status})
        producer.produce(topic, value.encode())
    assert producer.flush(30) == 0


def committed_keys(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return the keys of committed records, once `count` are there."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "test",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, found
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.key().decode())
        last = consumer.poll(0.5)
        assert last is None, f"one too many: {last.key()}"
    finally:
        consumer.close()
    return found


def make_project(tool: Tool, broker: Broker, tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    tool("init", str(directory), "--bootstrap-server", broker.bootstrap)
    return directory


def view_rows(project: Path, view: str) -> list[dict[str, object]]:
    """Return the rows of a view's files, read without Spark."""
    import pyarrow.dataset as ds

    table = ds.dataset(str(project / "storage" / "tables" / view), format="parquet").to_table()
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_a_project_is_checked_run_and_kept_running(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "shop")
    here = ("--project", str(project), *ONE)
    make_topic_at(broker.bootstrap, "shop-events", 2)
    [finding] = tool("check", *here, code=1).splitlines()
    assert finding.startswith("transformations/events.py:")
    assert "error: the topic shop-alerts does not exist" in finding

    make_topic_at(broker.bootstrap, "shop-alerts", 1)
    send(broker.bootstrap, "shop-events", ("ann", 200), ("bob", 500))
    tool("run", *here)
    assert committed_keys(broker.bootstrap, "shop-alerts", 1) == ["bob"]
    rows = view_rows(project, "requests_by_page")
    assert {row["page"]: row["failed"] for row in rows} == {"/ann": 0, "/bob": 1}

    send(broker.bootstrap, "shop-events", ("cy", 503))
    running = tool.start("run", *here, "--continuous", "--refresh-interval", "0.5")
    assert committed_keys(broker.bootstrap, "shop-alerts", 2) == ["bob", "cy"]
    send(broker.bootstrap, "shop-events", ("dan", 500))
    assert committed_keys(broker.bootstrap, "shop-alerts", 3) == ["bob", "cy", "dan"]
    wait_for_view(project, 4)
    tool.process.send_signal(
        signal.SIGINT
    )  # PySpark has a handler of its own for it, which cancels all jobs
    code, said = tool.wait(running)
    assert code == 0, said
    assert "is stopped in a batch" not in said

    shown = tool("status", "--json", "--bootstrap-server", broker.bootstrap)
    flows = {one["flow"]: one for one in map(json.loads, shown.split("\n")[:-1])}
    names = ("events", "failed_requests", "requests_by_page")
    assert {name: one["state"] for name, one in flows.items()} == dict.fromkeys(names, "stopped")
    assert flows["events"]["pipeline"] == "shop"
    assert sum(lag["records"] for lag in flows["events"]["lag"].values()) == 0
    assert len(flows["events"]["lag"]) == 2


def wait_for_view(project: Path, count: int) -> None:
    def is_refreshed() -> bool:
        try:
            return len(view_rows(project, "requests_by_page")) == count
        except OSError:
            return False  # it is being replaced

    wait_until(is_refreshed, PATIENCE_S, "the view is refreshed")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_stock_command_runs_the_same_project(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "stock")
    here = ("--project", str(project), *ONE)
    for topic in ("stock-events", "stock-alerts"):
        make_topic_at(broker.bootstrap, topic, 1)
    send(broker.bootstrap, "stock-events", ("bob", 500))
    for _ in range(2):
        run_stock(project)
    send(broker.bootstrap, "stock-events", ("cy", 500))
    tool("run", *here)
    assert committed_keys(broker.bootstrap, "stock-alerts", 2) == ["bob", "cy"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_range_of_time_is_processed_once_more_and_a_table_is_reset(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "again")
    here = ("--project", str(project), *ONE)
    for topic in ("again-events", "again-alerts"):
        make_topic_at(broker.bootstrap, topic, 1)
    send(broker.bootstrap, "again-events", ("ann", 500))
    between_ms = time.time_ns() // 1_000_000 + 2
    wait_until(lambda: time.time_ns() // 1_000_000 > between_ms)
    send(broker.bootstrap, "again-events", ("bob", 500), ("cy", 200))
    for _ in range(2):  # the second run finds nothing new
        tool("run", *here)
    assert committed_keys(broker.bootstrap, "again-alerts", 2) == ["ann", "bob"]

    send(broker.bootstrap, "again-events", ("dan", 500))  # is in the range, and not processed yet
    tool("backfill", *here, "--from", str(between_ms))
    assert not (project / "storage" / "backfill.json").exists()
    tool("run", *here)
    keys = committed_keys(broker.bootstrap, "again-alerts", 4)
    assert keys == ["ann", "bob", "bob", "dan"]
    rows = view_rows(project, "requests_by_page")
    counts = {row["page"]: row["requests"] for row in rows}
    assert counts == {"/ann": 1, "/bob": 2, "/cy": 2, "/dan": 1}

    said = tool("reset", "events", *here)
    assert "events is emptied" in said
    assert "reset them too (failed_requests)" in said
    tool("reset", "events", "--execute", *here)
    tool("run", *here, "--refresh", "requests_by_page")
    rows = view_rows(project, "requests_by_page")
    assert {row["requests"] for row in rows} == {1}
    assert len(rows) == 4


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_failing_flow_starts_again_and_others_go_on(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "failing")
    for topic in ("failing-events", "failing-alerts", "failing-other"):
        make_topic_at(broker.bootstrap, topic, 1)
    (project / "transformations" / "other.py").write_text(
        f"""
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def other():
    return (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", "{broker.bootstrap}")
        .option("subscribe", "failing-other")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("assert_true(CAST(value AS STRING) != 'bad') AS ok", "value")
    )
"""
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("failing-other", b"bad")
    assert producer.flush(30) == 0
    send(broker.bootstrap, "failing-events", ("bob", 500))
    with run_process(project, "--continuous", "--metrics-port", "0") as running:
        assert committed_keys(broker.bootstrap, "failing-alerts", 1) == ["bob"]

        def has_restarted() -> bool:
            assert running.poll() is None
            return sample(project, "kavka_pipeline_restarts_total", "other") >= 2

        wait_until(has_restarted, PATIENCE_S)
        send(broker.bootstrap, "failing-events", ("cy", 500))
        assert committed_keys(broker.bootstrap, "failing-alerts", 2) == ["bob", "cy"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_continues_and_writes_each_record_once(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "killed")
    make_topic_at(broker.bootstrap, "killed-events", 2)
    make_topic_at(broker.bootstrap, "killed-alerts", 1)
    sent: list[str] = []
    for life in range(LIVES):
        with run_process(project, "--continuous") as running:
            for number in range(5):
                name = f"u{life}-{number}"
                sent.append(name)
                send(broker.bootstrap, "killed-events", (name, 500))
                if number < 3 or life == LIVES - 1:
                    found = committed_keys(broker.bootstrap, "killed-alerts", len(sent))
                    assert sorted(found) == sorted(sent)
            running.kill() if life < LIVES - 1 else running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE_S)
    assert running.returncode == 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_signal_to_the_group_ends_a_run_in_order_and_the_end_of_the_jvm_at_once(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "ended")
    make_topic_at(broker.bootstrap, "ended-events", 1)
    make_topic_at(broker.bootstrap, "ended-alerts", 1)
    send(broker.bootstrap, "ended-events", ("ann", 500))
    with run_process(project, "--continuous", new_group=True) as running:
        assert committed_keys(broker.bootstrap, "ended-alerts", 1) == ["ann"]
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0, (project / "run.log").read_text()
    assert "is stopped in a batch" not in (project / "run.log").read_text()

    send(broker.bootstrap, "ended-events", ("bob", 500))
    with run_process(project, "--continuous") as running:
        assert committed_keys(broker.bootstrap, "ended-alerts", 2) == ["ann", "bob"]
        [jvm] = [one for one in psutil.Process(running.pid).children() if one.name() == "java"]
        jvm.kill()
        assert running.wait(60) == 1
    said = (project / "run.log").read_text().splitlines()
    assert said[-1].startswith("kavka pipelines: Spark's driver ended by signal 9")
    assert "Traceback" not in "\n".join(said)
    shown = tool("status", "--json", "--bootstrap-server", broker.bootstrap)
    flows = [json.loads(line) for line in shown.split("\n")[:-1]]
    assert {flow["state"] for flow in flows} == {"failed"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_standalone_master_runs_a_project_whose_workers_have_no_kavka(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "cluster")
    for topic in ("cluster-events", "cluster-alerts"):
        make_topic_at(broker.bootstrap, topic, 1)
    send(broker.bootstrap, "cluster-events", ("bob", 500))
    archive = tmp_path / "kavka-spark.tar.gz"
    package = [sys.executable, "-m", "kavka", "spark-package", "--output", str(archive)]
    subprocess.run(package, check=True, stdout=subprocess.DEVNULL)
    workers = environment() | {"PYSPARK_PYTHON": str(bare_python(tmp_path / "bare"))}
    del workers["PYTHONPATH"]
    # Workers of the driver are of the same bare Python, and it has kavka, as from `pip install`.
    driver = workers | {"PYTHONPATH": str(unpacked(archive, tmp_path / "driver"))}
    given = ("--archive", str(archive))
    with run_standalone(tmp_path / "spark", workers) as cluster:
        with run_process(project, *given, master=cluster.url, variables=driver) as once:
            assert once.wait(PATIENCE_S) == 0, (project / "run.log").read_text()
        with run_process(
            project, "--continuous", *given, master=cluster.url, variables=driver
        ) as running:
            send(broker.bootstrap, "cluster-events", ("cy", 500))
            assert committed_keys(broker.bootstrap, "cluster-alerts", 2) == ["bob", "cy"]
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE_S) == 0


CONNECT_SERVER = """
import sys
from pathlib import Path
from kavka.spark.session import local_session
settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
spark = local_session("connect", Path(sys.argv[1]), settings=settings, log_level="off", short_lived=True)
service = spark._jvm.org.apache.spark.sql.connect.service
print(getattr(getattr(service, "SparkConnectService$"), "MODULE$").localPort(), flush=True)
sys.stdin.read()
"""


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Run a server of Spark Connect in a process of its own; yield its URL."""
    command = [sys.executable, "-c", CONNECT_SERVER, str(directory)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield f"sc://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_connect_server_runs_a_project_once_and_continuously(
    tool: Tool, broker: Broker, tmp_path: Path
) -> None:
    project = make_project(tool, broker, tmp_path, "remote")
    make_topic_at(broker.bootstrap, "remote-events", 1)
    make_topic_at(broker.bootstrap, "remote-alerts", 1)
    send(broker.bootstrap, "remote-events", ("ann", 500))
    with connect_server(tmp_path / "server") as url:
        here = ("--project", str(project), "--remote", url)
        assert tool("check", *here).strip() == "no findings"
        tool("run", *here)
        assert committed_keys(broker.bootstrap, "remote-alerts", 1) == ["ann"]
        with run_process(project, "--continuous", remote=url) as running:
            for name, count in (("bob", 2), ("cy", 3)):  # each by an update of its own
                send(broker.bootstrap, "remote-events", (name, 500))
                assert committed_keys(broker.bootstrap, "remote-alerts", count)[-1] == name
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE_S) == 0, (project / "run.log").read_text()


def sample(project: Path, name: str, flow: str) -> float:
    """Return a metric of a flow; 0 before the port is open."""
    log = (project / "run.log").read_text()
    url = next((word for word in log.split() if word.startswith("http://127.0.0.1:")), None)
    if url is None:
        return 0.0
    with urllib.request.urlopen(url, timeout=10) as page:
        for line in page.read().decode().splitlines():
            if line.startswith(f"{name}{{") and f'flow="{flow}"' in line:
                return float(line.rpartition(" ")[2])
    return 0.0
