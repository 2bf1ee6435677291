"""The template `operations`: a broker's metrics, collected, become one incident, which librdkafka reads; its own tests.

One process of pytest runs them, as `kavka pipelines test` starts it: Spark starts once.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kavka.pipelines.project import make_project
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.jmx import agent_option
from kavka_compat.ours import run_kavka
from support.spark.pipeline_commands import run_process, run_stock
from support.spark.standalone import environment
from support.spark.topic_filling import make_topic_at

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

PATIENCE_S = 400
REAL = '''
"""A real broker, whose collectors write into the topic of the pipeline."""

import json
import os
import signal
import subprocess
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

BROKER, PAGE = {"bootstrap.servers": os.environ["BROKER"]}, os.environ["PAGE"]


def collect(pipeline, kind, *arguments):
    command = [sys.executable, "-m", "kavka", "collect", kind, *arguments, "--once", "--host", "b1"]
    command += ["--topic", "ops-metrics", "--bootstrap-server", pipeline.bootstrap_servers]
    subprocess.run(command, check=True)


def collect_all(pipeline, *, answers):
    groups = ("groups", "--of", BROKER["bootstrap.servers"])
    collect(pipeline, *groups)
    process = int(os.environ["PROCESS"])
    if not answers:
        os.kill(process, signal.SIGSTOP)
    try:
        collect(pipeline, "metrics", PAGE, "--scrape-timeout", "10" if answers else "0.5")
    finally:
        os.kill(process, signal.SIGCONT)


def commit(offset):
    consumer = Consumer({**BROKER, "group.id": "slow"})
    for attempts_left in reversed(range(100)):
        try:
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
            break
        except KafkaException as error:  # Apache Kafka makes the topic of offsets now
            if not (attempts_left and error.args[0].code() == KafkaError.NOT_COORDINATOR):
                raise
            time.sleep(0.2)
    consumer.close()


def committed(pipeline, count):
    settings = {"bootstrap.servers": pipeline.bootstrap_servers, "group.id": "t", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition("ops-alerts", 0, 0)])
        found = consumer.consume(count, timeout=60)
        assert consumer.poll(0.5) is None, "one too many"
        return {(json.loads(one.value())["event"], one.key().decode()): json.loads(one.value()) for one in found}
    finally:
        consumer.close()


def produce(count):
    producer = Producer(BROKER)
    for _ in range(count):
        producer.produce("t", b"x")
    assert producer.flush(60) == 0


def test_load_and_lag_and_a_broker_that_hangs_are_one_incident_each(pipeline):
    produce(1)
    commit(0)
    pipeline.create_topic("ops-metrics")
    pipeline.create_topic("ops-alerts")
    collect_all(pipeline, answers=True)
    produce(10_499)
    collect_all(pipeline, answers=True)
    for _ in range(2):
        collect_all(pipeline, answers=False)
    pipeline.run()
    lag = f"ConsumerLag b1:groups of {BROKER['bootstrap.servers']} {{consumergroup=slow,topic=t}}"
    page = f"PageIsDown b1:{PAGE} {{}}"
    load = f"TopicIsBusy b1:{PAGE} {{topic=t}}"
    first = committed(pipeline, 3)
    assert first.keys() == {("firing", lag), ("firing", page), ("firing", load)}
    assert first["firing", lag]["value"] == 10_500
    assert first["firing", page]["severity"] == "critical"
    assert first["firing", load]["value"] > 10

    commit(10_400)
    for _ in range(2):
        collect_all(pipeline, answers=True)
    pipeline.run()
    both = committed(pipeline, 6)
    assert both.keys() == first.keys() | {("resolved", one) for one in (lag, page, load)}
    assert both["resolved", lag]["value"] == 100
    assert both["resolved", load]["value"] == 0
    for key in (lag, page, load):
        assert both["resolved", key]["incident"] == first["firing", key]["incident"]
'''
BUSY = """
  - alert: TopicIsBusy
    metric: kafka_server_brokertopicmetrics_messagesin_total
    labels: {topic: t}
    rate: true
    above: 10
"""


def without_waiting(project: Path, alert: str) -> None:
    """Let a rule of the project fire with the first value."""
    file = project / "alerts.yml"
    rule = rf"(alert: {alert}\n(?:    .*\n)*?    for: )\w+"
    text, count = re.subn(rule, r"\g<1>0s", file.read_text())
    assert count == 1
    file.write_text(text)


def alerts_of_a_real_broker(directory: Path, broker: Broker, page: str, *options: str) -> str:
    """Run the test of a real broker; return what is printed."""
    project = directory / "ops"
    make_project(project, "operations", "localhost:9092")
    for alert in ("PageIsDown", "ConsumerLag"):
        without_waiting(project, alert)
    with (project / "alerts.yml").open("a") as rules:
        rules.write(BUSY)
    (project / "tests" / "test_real.py").write_text(REAL)
    make_topic_at(broker.bootstrap, "t", 1)
    process = str(broker.process.pid)
    variables = environment() | {"PAGE": page, "BROKER": broker.bootstrap, "PROCESS": process}
    command = [sys.executable, "-m", "kavka", "pipelines", "test", str(project), *options]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alerts_of_a_real_broker_under_test(tmp_path: Path) -> None:
    with run_kavka(tmp_path / "broker", {"kavka.metrics.port": "0"}) as broker:
        said = alerts_of_a_real_broker(tmp_path, broker, broker.metrics_url, "-k", "load_and_lag")
        assert "1 passed" in said


@pytest.mark.long
def test_the_tests_of_the_template_pass(tmp_path: Path) -> None:
    project = tmp_path / "ops"
    make_project(project, "operations", "localhost:9092")
    command = [sys.executable, "-m", "kavka", "pipelines", "test", str(project)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.long
def test_apache_kafka_is_watched_through_the_jmx_exporter_and_its_groups(tmp_path: Path) -> None:
    option, page = agent_option(tmp_path)
    apache = ApacheKafka("3.9").run_broker(tmp_path / "apache", options=(*SMALL, option))
    with apache as broker:
        assert "1 passed" in alerts_of_a_real_broker(tmp_path, broker, page, "-k", "load_and_lag")


SILENT = '''
"""A source that is silent while others go on, and speaks again."""


def up(host):
    time = "2020-01-01T10:00:00.000Z"
    record = {"time": time, "collected": time, "kind": "metric", "host": host, "source": "s"}
    return {**record, "name": "up", "value": 1, "labels": {}}


def test_a_source_that_is_silent_is_an_incident_until_it_speaks(pipeline):
    for hosts in (("gone", "there"), ("there",), ("there",)):
        pipeline.feed("ops-metrics", [up(host) for host in hosts])
        pipeline.run()
    [firing] = pipeline.topic("ops-alerts")
    assert (firing.json["event"], firing.key_text) == ("firing", "CollectorIsSilent gone:s {}")
    assert firing.json["silent_s"] == 1
    pipeline.feed("ops-metrics", [up("gone")])
    pipeline.run()
    _, resolved = pipeline.topic("ops-alerts")
    assert (resolved.json["event"], resolved.json["incident"]) == ("resolved", firing.json["incident"])
'''


@pytest.mark.long
def test_a_silent_source_is_found_while_others_go_on(tmp_path: Path) -> None:
    project = tmp_path / "ops"
    make_project(project, "operations", "localhost:9092")
    rules = project / "alerts.yml"
    text = rules.read_text()
    assert "    silent: 10m\n" in text
    # An update takes longer than a second.
    rules.write_text(
        text.replace("    silent: 10m\n", "    silent: 1s\n    labels: {host: gone}\n")
    )
    (project / "tests" / "test_silent.py").write_text(SILENT)
    command = [sys.executable, "-m", "kavka", "pipelines", "test", str(project), "-k", "silent"]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


# Killed runs, and both ways of running


def sample(at: int, name: str, value: float) -> str:
    """Return a sample of a page, at a second of an hour."""
    time_text = f"2020-01-01T10:{at // 60:02}:{at % 60:02}.000Z"
    record = {
        "time": time_text,
        "collected": time_text,
        "kind": "metric",
        "host": "a",
        "source": "http://b",
    }
    return json.dumps({**record, "name": name, "value": value})


def send(bootstrap: str, at: int, offline: float) -> None:
    """Send the samples of one time."""
    producer = Producer({"bootstrap.servers": bootstrap})
    metric = "kafka_controller_kafkacontroller_offlinepartitionscount"
    for name, value in (("up", 1), (metric, offline)):
        producer.produce("ops-metrics", sample(at, name, value).encode(), b"a:http://b", 0)
    assert producer.flush(30) == 0


def events(bootstrap: str, count: int) -> list[tuple[str, str]]:
    """Return event and incident of the committed alerts, once so many are there."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "t",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("ops-alerts", 0, 0)])
    found: list[tuple[str, str]] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, found
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                value: dict[str, Any] = json.loads(message.value())
                found.append((value["event"], value["incident"]))
        last = consumer.poll(0.5)
        assert last is None, f"one too many: {last.value()}"
    finally:
        consumer.close()
    return found


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_incidents_are_two_records_across_kills_and_both_ways_of_running(
    broker: Broker, tmp_path: Path
) -> None:
    project = tmp_path / "ops"
    make_project(project, "operations", broker.bootstrap)
    without_waiting(project, "OfflinePartitions")
    for topic in ("ops-metrics", "ops-logs", "ops-windows", "ops-alerts"):
        make_topic_at(broker.bootstrap, topic, 1)
    at = 0
    for life in range(3):
        with run_process(project, "--continuous") as running:
            send(broker.bootstrap, at + 10, 2)  # it fires once, and values say so again and again
            for more in (20, 30, 40):
                send(broker.bootstrap, at + more, 2)
            found = events(broker.bootstrap, 2 * life + 1)
            assert found[-1][0] == "firing"
            send(broker.bootstrap, at + 50, 0)
            send(broker.bootstrap, at + 60, 0)
            if life != 1:  # else the resolved event may be under way when it is killed
                events(broker.bootstrap, 2 * life + 2)
            running.kill() if life < 2 else running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE_S)
        at += 60
    assert running.returncode == 0, (project / "run.log").read_text()
    send(broker.bootstrap, at + 10, 1)
    run_stock(project)
    found = events(broker.bootstrap, 7)
    assert [event for event, _ in found] == ["firing", "resolved"] * 3 + ["firing"]
    assert [incident for _, incident in found[:6:2]] == [incident for _, incident in found[1:6:2]]
    assert len({incident for _, incident in found}) == 4
