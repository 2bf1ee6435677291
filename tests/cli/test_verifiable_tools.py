"""The verifiable tools and the latency tool between a broker in the test: counts, events and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kavka.cli.commands import e2e_latency, verifiable_consumer, verifiable_producer
from kavka.client import NewTopic, blocking
from kavka.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.kavka_cluster(
    brokers=1, settings={"group.initial.rebalance.delay.ms": "0"}
)


def events(text: str) -> list[dict[str, Any]]:
    """Return the printed events without their times."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(event.pop("timestamp") > 0 for event in found)
    return found


def at(cluster: LocalCluster, topic: str) -> list[str]:
    """Return the options that name the broker and a topic."""
    return ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic]


def test_what_is_sent_is_acknowledged_read_and_committed(
    kavka_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    here = at(kavka_cluster, "t")
    sending = [*here, "--max-messages", "5", "--value-prefix", "7", "--repeating-keys", "2"]
    assert verifiable_producer.main([*sending, "--message-create-time", "1000"]) == 0
    started, *responses, ended, totals = events(capsys.readouterr().out)
    assert (started, ended) == ({"name": "startup_complete"}, {"name": "shutdown_complete"})
    place = {"topic": "t", "partition": 0}
    assert responses == [
        {"name": "producer_send_success", "key": str(number % 2), "value": f"7.{number}"}
        | {"offset": number, **place}
        for number in range(5)
    ]
    assert totals.pop("avg_throughput") > 0
    assert totals == {"name": "tool_data", "sent": 5, "acked": 5, "target_throughput": -1}

    reading = [*here, "--group-id", "g", "--verbose"]
    assert verifiable_consumer.main([*reading, "--max-messages", "3"]) == 0
    read = events(capsys.readouterr().out)
    assert [event["value"] for event in read if event["name"] == "record_data"] == [
        "7.0",
        "7.1",
        "7.2",
    ]
    counted = {"count": 3, "minOffset": 0, "maxOffset": 2}
    assert [event for event in read if event["name"] != "record_data"] == [
        {"name": "startup_complete"},
        {"name": "partitions_assigned", "partitions": [place]},
        {"name": "records_consumed", "count": 3, "partitions": [place | counted]},
        {"name": "offsets_committed", "offsets": [place | {"offset": 3}], "success": True},
        {"name": "partitions_revoked", "partitions": [place]},
        {"name": "shutdown_complete"},
    ]
    assert verifiable_consumer.main([*reading, "--max-messages", "2"]) == 0
    rest = events(capsys.readouterr().out)
    assert [event["value"] for event in rest if event["name"] == "record_data"] == ["7.3", "7.4"]


def test_refused_records_are_events_with_javas_names(
    kavka_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with blocking.Admin({"bootstrap.servers": kavka_cluster.bootstrap_servers}) as admin:
        admin.create_topics([NewTopic("c", 1, 1, configs={"cleanup.policy": "compact"})])
    assert verifiable_producer.main([*at(kavka_cluster, "c"), "--max-messages", "2"]) == 0
    refused = [event for event in events(capsys.readouterr().out) if "exception" in event]
    assert refused == [
        {"name": "producer_send_error", "topic": "c", "key": None, "value": str(number)}
        | {"exception": "class org.apache.kafka.common.InvalidRecordException"}
        | {"message": "Compacted topic cannot accept message without key."}
        for number in range(2)
    ]


def test_latency_is_measured_message_by_message(
    kavka_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    here = kavka_cluster.bootstrap_servers
    assert e2e_latency.main([here, "new", "3", "all", "10"]) == 0
    created, first, average, percentiles = capsys.readouterr().out.splitlines()
    assert created.startswith('Topic "new" does not exist. Will create topic with 1 partition(s)')
    number, latency = first.split("\t")
    assert number == "0"
    assert float(latency) > 0
    assert average.startswith("Avg latency: ")
    assert percentiles.startswith("Percentiles: 50th = ")
    named = ["--num-records", "2", "--producer-acks", "1", "--record-size", "100"]
    assert e2e_latency.main([*at(kavka_cluster, "new"), *named]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "usage: kavka e2e-latency broker_list topic"),
        (["h:1", "t", "3", "2", "10"], "Latency testing requires synchronous acknowledgement."),
        (["h:1", "t", "0", "1", "10"], "the number of messages must be from 1 to"),
        (["h:1", "t", "x", "1", "10"], "the number of messages: 'x' is no whole number"),
        (
            ["--bootstrap-server", "h:1", "--topic", "t"],
            'Missing required argument "[num-records]"',
        ),
    ],
)
def test_wrong_options_of_the_latency_tool_are_reported(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert e2e_latency.main(arguments) == 1
    assert sentence in capsys.readouterr().err


def test_without_options_the_verifiable_tools_explain_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verifiable_producer.main([]) == 0
    assert verifiable_consumer.main([]) == 0
    shown = capsys.readouterr().out
    assert "usage: kavka verifiable-producer" in shown
    assert "usage: kavka verifiable-consumer" in shown


def test_the_producer_ends_without_tracebacks_when_nobody_reads_its_events(
    kavka_cluster: LocalCluster,
) -> None:
    command = [sys.executable, "-m", "kavka", "verifiable-producer", *at(kavka_cluster, "unread")]
    with subprocess.Popen(
        [*command, "--throughput", "500", "--max-messages", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as producer:
        assert producer.stdout is not None
        assert producer.stderr is not None
        producer.stdout.readline()
        producer.stdout.close()
        errors = producer.stderr.read()
    assert producer.returncode == 1
    assert "Traceback" not in errors
