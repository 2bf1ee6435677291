"""`--json` of every command: each response has a declared shape, each failure is one object with the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.json_lines import shapes, tool_shapes
from kavka.cli.json_lines.declaration import Shape
from kavka.cli.json_lines.shapes import SHAPES
from kavka.cli.main import COMMANDS, main
from kavka.client import NewTopic, TopicPartition
from kavka.client.blocking import Admin, Consumer, Producer
from kavka.testing.local_cluster import LocalCluster
from support.json_shapes import check

Rows = list[dict[str, Any]]
Call = Callable[..., Rows]

_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker with a topic, records, a group with a member, an open transaction."""
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=1, settings=_SETTINGS) as running:
        at = {"bootstrap.servers": running.bootstrap_servers}
        with Admin(at) as admin:
            admin.create_topics([NewTopic("t", 2, 1), NewTopic("gone", 1, 1)])
            admin.alter_group_offsets("left", {TopicPartition("t", 0): 1})
            admin.alter_group_offsets("gone", {TopicPartition("t", 0): 1})
        transactional = {**at, "transactional.id": "payments"}
        reading = {**at, "group.id": "reading", "auto.offset.reset": "earliest"}
        with Producer(transactional) as producer, Consumer(reading) as consumer:
            producer.init_transactions()
            for value in (b"a", b"b"):
                producer.begin_transaction()
                producer.send("t", value, partition=0)
                if value == b"a":
                    producer.commit_transaction()
            consumer.subscribe(["t"])
            while not consumer.poll(1000):
                pass
            consumer.commit()
            yield running
            producer.abort_transaction()


@pytest.fixture
def call(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line with `--json`, insist on its exit code, and return its objects of a shape."""

    def run(words: str, shape: Shape, code: int = 0, warnings: int = 0) -> Rows:
        capsys.readouterr()
        done = main(_words(words, cluster.bootstrap_servers))
        out, err = capsys.readouterr()
        assert done == code, f"{words}: {out}{err}"
        rows = [json.loads(line) for line in out.splitlines()]
        for row in rows:
            check(row, shape.fields, shape.parts)
        said = [json.loads(line) for line in err.splitlines()]
        for row in said[:warnings]:
            check(row, shapes.WARNING.fields, {})
        for row in said[warnings:]:
            check(row, shapes.FAILURE.fields, {})
            assert row["exit_code"] == code
        assert len(said) == warnings + (1 if code else 0), err
        return rows

    return run


def _words(line: str, servers: str) -> list[str]:
    """Return the words of a line; what names a broker is added where the command takes it."""
    command, *rest = line.split()
    return [command, *(servers if word == "AT" else word for word in rest), "--json"]


_AT = "--bootstrap-server AT"
EXPECTED: list[tuple[str, Shape, dict[str, Any]]] = [
    (f"topics {_AT} --list", shapes.TOPIC, {"topic": "t"}),
    (
        f"topics {_AT} --describe --topic t",
        shapes.TOPIC_DESCRIPTION,
        {"topic": "t", "partition_count": 2, "replication_factor": 1, "internal": False},
    ),
    (
        f"topics {_AT} --create --topic made --partitions 3 --config retention.ms=60000",
        shapes.NEW_TOPIC,
        {"topic": "made", "created": True, "partition_count": 3, "replication_factor": 1},
    ),
    (
        f"topics {_AT} --create --topic made --if-not-exists",
        shapes.NEW_TOPIC,
        {"topic": "made", "created": False, "topic_id": None},
    ),
    (
        f"topics {_AT} --describe --topics-with-overrides",
        shapes.TOPIC_DESCRIPTION,
        {"topic": "made", "configs": {"retention.ms": "60000"}},
    ),
    (f"topics {_AT} --alter --topic made --partitions 4", shapes.CHANGED_TOPIC, {"topic": "made"}),
    (f"topics {_AT} --delete --topic made", shapes.CHANGED_TOPIC, {"topic": "made", "error": None}),
    (
        f"consumer-groups {_AT} --list",
        shapes.GROUP,
        {"group": "left", "state": "Empty", "type": "Classic"},
    ),
    (
        f"consumer-groups {_AT} --describe --group reading --lag-seconds",
        shapes.GROUP_OFFSET,
        {"group": "reading", "state": "Stable", "topic": "t", "partition": 0},
    ),
    (
        f"consumer-groups {_AT} --describe --group left",
        shapes.GROUP_OFFSET,
        {"current_offset": 1, "lag": 2, "lag_seconds": None, "consumer_id": None},
    ),
    (
        f"consumer-groups {_AT} --describe --group reading --members",
        shapes.GROUP_MEMBER,
        {"group": "reading", "assignment": [{"topic": "t", "partition": p} for p in (0, 1)]},
    ),
    (
        f"consumer-groups {_AT} --describe --group reading --state",
        shapes.GROUP_STATE,
        {"group": "reading", "coordinator_id": 1, "member_count": 1},
    ),
    (
        f"consumer-groups {_AT} --reset-offsets --group left --topic t:0 --to-latest --execute",
        shapes.RESET_OFFSET,
        {"group": "left", "topic": "t", "partition": 0, "new_offset": 3, "executed": True},
    ),
    (
        f"consumer-groups {_AT} --delete-offsets --group left --topic t:0",
        shapes.DELETED_OFFSET,
        {"group": "left", "topic": "t", "partition": 0, "error": None},
    ),
    (f"consumer-groups {_AT} --delete --group gone", shapes.DELETED_GROUP, {"group": "gone"}),
    (
        f"configs {_AT} --alter --topic t --add-config retention.ms=70000",
        shapes.ALTERED,
        {"entity": {"topic": "t"}, "set": ["retention.ms"], "deleted": []},
    ),
    (
        f"configs {_AT} --describe --topic t",
        shapes.CONFIG,
        {"entity": {"topic": "t"}, "name": "retention.ms", "value": "70000"},
    ),
    (f"configs {_AT} --describe --broker 1 --all", shapes.CONFIG, {"name": "broker.id"}),
    (
        f"configs {_AT} --alter --client-defaults --add-config producer_byte_rate=1000",
        shapes.ALTERED,
        {"entity": {"client-id": None}, "set": ["producer_byte_rate"]},
    ),
    (
        f"configs {_AT} --describe --entity-type clients",
        shapes.QUOTA,
        {"entity": {"client-id": None}, "quotas": {"producer_byte_rate": 1000.0}},
    ),
    (
        f"configs {_AT} --alter --user ann --add-config SCRAM-SHA-256=[password=secret]",
        shapes.ALTERED,
        {"entity": {"user": "ann"}, "set": ["SCRAM-SHA-256"]},
    ),
    (
        f"configs {_AT} --describe --user ann",
        shapes.CREDENTIAL,
        {"entity": {"user": "ann"}, "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    ),
    (
        f"acls {_AT} --add --topic t --allow-principal User:ann --operation Read",
        shapes.ACL,
        {"resource_type": "TOPIC", "principal": "User:ann", "operation": "READ"},
    ),
    (f"acls {_AT} --list --principal User:ann", shapes.ACL, {"resource_name": "t", "host": "*"}),
    (f"acls {_AT} --remove --topic t --force", shapes.ACL, {"permission": "ALLOW"}),
    (f"get-offsets {_AT} --topic t", shapes.OFFSET, {"topic": "t", "partition": 0, "offset": 3}),
    (
        f"get-offsets {_AT} --topic t --time 9999999999999",
        shapes.OFFSET,
        {"offset": None, "timestamp_ms": None, "error": None},
    ),
    (
        f"delete-records {_AT} --offset-json-file FILES/records.json",
        shapes.DELETED_RECORDS,
        {"topic": "gone", "partition": 0, "low_watermark": 0, "error": None},
    ),
    (f"log-dirs {_AT} --describe --topic-list t", shapes.LOG_DIR, {"broker_id": 1, "error": None}),
    (f"broker-api-versions {_AT}", shapes.BROKER_APIS, {"broker_id": 1, "error": None}),
    (f"cluster cluster-id {_AT}", shapes.CLUSTER_ID, {}),
    (f"cluster list-endpoints {_AT}", shapes.ENDPOINT, {"broker_id": 1, "state": "unfenced"}),
    (f"features {_AT} describe", shapes.FEATURE, {"feature": "transaction.version"}),
    (
        f"features {_AT} downgrade --feature transaction.version=1 --dry-run",
        shapes.CHANGED_FEATURE,
        {"feature": "transaction.version", "level": 1, "dry_run": True, "error": None},
    ),
    (
        f"leader-election {_AT} --election-type preferred --topic t --partition 0",
        shapes.ELECTION,
        {"topic": "t", "partition": 0, "outcome": "not_needed", "error": None},
    ),
    (
        f"preferred-replica-election {_AT} --path-to-json-file FILES/partitions.json",
        shapes.ELECTION,
        {"topic": "t", "election_type": "PREFERRED", "outcome": "not_needed"},
    ),
    (
        f"reassign-partitions {_AT} --generate --topics-to-move-json-file FILES/topics.json --broker-list 1",
        shapes.PLAN,
        {},
    ),
    (
        f"reassign-partitions {_AT} --execute --reassignment-json-file FILES/moves.json",
        shapes.STARTED_MOVES,
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}], "throttle": None},
    ),
    (
        f"reassign-partitions {_AT} --verify --reassignment-json-file FILES/moves.json",
        shapes.MOVE_STATE,
        {"topic": "t", "partition": 0, "state": "completed", "current": "1", "target": "1"},
    ),
    (
        f"reassign-partitions {_AT} --cancel --reassignment-json-file FILES/moves.json",
        shapes.CANCELLED_MOVE,
        {},
    ),
    (f"reassign-partitions {_AT} --list", shapes.MOVE, {}),
    (
        f"transactions {_AT} list",
        shapes.TRANSACTION,
        {"transactional_id": "payments", "coordinator_id": 1, "state": "Ongoing"},
    ),
    (
        f"transactions {_AT} describe --transactional-id payments",
        shapes.TRANSACTION_DESCRIPTION,
        {"state": "Ongoing", "partitions": [{"topic": "t", "partition": 0}]},
    ),
    (
        f"transactions {_AT} describe-producers --topic t --partition 0",
        shapes.PRODUCER,
        {"topic": "t", "partition": 0, "current_transaction_start_offset": 2},
    ),
    (f"transactions {_AT} find-hanging --broker-id 1", shapes.HANGING, {}),
    (
        f"console-consumer {_AT} --topic t --partition 0 --offset 0 --max-messages 1",
        tool_shapes.RECORD,
        {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": "a", "headers": []},
    ),
    ("storage random-uuid", tool_shapes.UUID, {}),
    (
        f"producer-perf-test {_AT} --topic perf --num-records 50 --record-size 10 --throughput -1",
        tool_shapes.PRODUCED,
        {"kind": "total", "records": 50},
    ),
    (
        f"consumer-perf-test {_AT} --topic perf --messages 50",
        tool_shapes.CONSUMED,
        {"kind": "total", "records": 50},
    ),
    (
        f"e2e-latency {_AT} --topic perf --num-records 3 --producer-acks 1 --record-size 10",
        tool_shapes.LATENCY,
        {"records": 3},
    ),
    (f"spark-sinks {_AT} --list", shapes.SINK, {}),
]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The plans that commands of the table read."""
    for name, document in (
        ("records", {"partitions": [{"topic": "gone", "partition": 0, "offset": 0}]}),
        ("partitions", {"partitions": [{"topic": "t", "partition": 0}]}),
        ("topics", {"topics": [{"topic": "t"}], "version": 1}),
        ("moves", {"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}], "version": 1}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return tmp_path


_MAY_BE_EMPTY = {shape.calls for shape in (shapes.CANCELLED_MOVE, shapes.MOVE, shapes.HANGING)} | {
    shapes.SINK.calls
}


def test_every_response_has_its_shape(call: Call, files: Path) -> None:
    for line, shape, expected in EXPECTED:
        rows = call(line.replace("FILES", str(files)), shape)
        assert rows or shape.calls in _MAY_BE_EMPTY, line
        assert not rows or any(expected.items() <= row.items() for row in rows), (line, rows)


FAILURES: list[tuple[str, str]] = [
    (f"topics {_AT} --describe --topic missing", "UNKNOWN_TOPIC_OR_PARTITION"),
    (f"topics {_AT} --create --topic t", "TOPIC_ALREADY_EXISTS"),
    (f"topics {_AT} --create --topic u --partitions 1_0", "BAD_VALUE"),
    (f"topics {_AT} --describe --topic-id AAAAAAAAAAAAAAAAAAAABQ", "UNKNOWN_TOPIC_ID"),
    (f"consumer-groups {_AT} --describe --group missing", "GROUP_ID_NOT_FOUND"),
    (f"consumer-groups {_AT} --describe", "BAD_USAGE"),
    (
        f"consumer-groups {_AT} --reset-offsets --group reading --topic t --to-latest --execute",
        "NON_EMPTY_GROUP",
    ),
    (
        f"consumer-groups {_AT} --reset-offsets --group left --topic t --to-latest --export",
        "BAD_USAGE",
    ),
    (f"configs {_AT} --describe --topic missing", "RESOURCE_NOT_FOUND"),
    (f"configs {_AT} --alter --topic t --add-config retention.ms=x", "INVALID_CONFIG"),
    (f"configs {_AT} --alter --topic t --delete-config segment.ms", "BAD_VALUE"),
    (f"configs {_AT} --alter --topic t --add-config-file missing", "FAILED"),
    ("configs --log-dir /dev/null --describe --user ann", "BAD_VALUE"),
    ("configs --zookeeper a:b --describe --user ann", "BAD_VALUE"),
    (f"acls {_AT} --remove --topic t", "BAD_USAGE"),
    (f"acls {_AT} --add --topic t --allow-principal ann", "BAD_VALUE"),
    (f"delegation-tokens {_AT} --describe --command-config /dev/null", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    (f"delegation-tokens {_AT} --expire --hmac ? --expiry-time-period 1 --command-config /dev/null", "BAD_VALUE"),
    (f"get-offsets {_AT} --topic missing", "BAD_VALUE"),
    (f"get-offsets {_AT} --topic t --time soon", "BAD_VALUE"),
    (f"delete-records {_AT} --offset-json-file /dev/null", "BAD_VALUE"),
    (f"log-dirs {_AT} --describe --broker-list 7", "BAD_VALUE"),
    ("cluster cluster-id", "BAD_USAGE"),
    (f"cluster unregister {_AT} --id 1", "UNSUPPORTED_VERSION"),
    (f"cluster list-endpoints {_AT} --include-fenced-brokers", "UNSUPPORTED_VERSION"),
    (f"features {_AT} upgrade --feature f=0", "BAD_USAGE"),
    (f"leader-election {_AT} --election-type preferred --path-to-json-file /dev/null", "FAILED"),
    (f"leader-election {_AT} --election-type best --topic t --partition 0", "FAILED"),
    ("preferred-replica-election --zookeeper a:b", "BAD_VALUE"),
    (f"reassign-partitions {_AT} --verify --reassignment-json-file /dev/null", "FAILED"),
    (f"replica-verification {_AT} --topics-include missing", "BAD_VALUE"),
    (f"transactions {_AT} describe --transactional-id missing", "TRANSACTIONAL_ID_NOT_FOUND"),
    (f"transactions {_AT} find-hanging", "FAILED"),
    (f"transactions {_AT} describe", "BAD_USAGE"),
    ("storage info", "BAD_USAGE"),
    ("storage format", "BAD_USAGE"),
    ("storage info -c /dev/zero", "BAD_VALUE"),
    ("storage info -c /missing", "BAD_VALUE"),
    (f"producer-perf-test {_AT} --topic perf", "BAD_USAGE"),
    (f"consumer-perf-test {_AT} --topic perf", "BAD_USAGE"),
    (f"e2e-latency {_AT} --topic t --num-records 1 --producer-acks 0 --record-size 1", "BAD_VALUE"),
    (f"spark-sinks {_AT} --list --sink-id s", "BAD_USAGE"),
]  # fmt: skip
"""Calls that fail after no response."""


@pytest.mark.parametrize(("line", "code"), FAILURES)
def test_every_failure_is_one_object(
    line: str, code: str, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(line, cluster.bootstrap_servers)) == 1
    out, err = capsys.readouterr()
    [failure] = [json.loads(text) for text in err.splitlines()]
    check(failure, shapes.FAILURE.fields, {})
    assert (failure["error"]["code"], failure["exit_code"]) == (code, 1), failure
    assert out == ""


@pytest.mark.parametrize("line", [line for line, _, _ in EXPECTED if "AT" in line.split()])
def test_a_broker_that_cannot_be_reached_is_one_object(
    line: str, not_a_broker: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(line.replace("FILES", str(files)), not_a_broker)) == 1
    out, err = capsys.readouterr()
    *warnings, failure = (json.loads(text) for text in err.splitlines())
    assert all(list(warning) == ["warning"] for warning in warnings)
    assert not_a_broker in failure["error"]["message"]
    assert failure["error"]["code"] in ("UNREACHABLE", "NETWORK_EXCEPTION")
    assert out == ""


def test_outcomes_of_some_are_printed_before_the_failure_of_others(
    call: Call, tmp_path: Path
) -> None:
    parts = [{"topic": "t", "partition": p, "offset": offset} for p, offset in ((0, 0), (1, 7))]
    (tmp_path / "records.json").write_text(json.dumps({"partitions": parts}))
    line = f"delete-records {_AT} --offset-json-file {tmp_path}/records.json"
    done, failed = call(line, shapes.DELETED_RECORDS, code=1)
    assert (done["low_watermark"], done["error"]) == (0, None)
    assert failed["error"]["code"] == "OFFSET_OUT_OF_RANGE"


def test_what_is_not_asked_for_is_a_warning(call: Call) -> None:
    line = f"consumer-groups {_AT} --reset-offsets --group left --topic t:0 --to-offset 99"
    [row] = call(line, shapes.RESET_OFFSET, warnings=2)
    assert (row["new_offset"], row["executed"]) == (3, False)


WITHOUT_JSON = {
    "server-start": "serves",
    "server-stop": "answers by its exit code",
    "zookeeper-server-start": "serves",
    "zookeeper-server-stop": "answers by its exit code",
    "console-users": "prints names, a line for each",
    "metrics-users": "prints names, a line for each",
    "console": "serves",
    "group-metrics": "serves",
    "monitoring": "writes files, and prints their names",
    "console-producer": "prints nothing",
    "sql": "has --format json",
    "zookeeper-shell": "is typed into",
    "zookeeper-security-migration": "prints nothing",
    "verifiable-producer": "prints JSON always",
    "verifiable-consumer": "prints JSON always",
    "completion": "prints a script",
    "collect": "serves",
    "spark-package": "prints a path",
    "simulate": "prints a story",
    "demo": "is watched",
}
"""Commands that are not in the tables, and why."""

ELSEWHERE = {
    "delegation-tokens": "test_delegation_tokens.py",
    "replica-verification": "test_cluster_tools.py",
    "dump-log": "test_dump_log.py",
    "lake": "../lake/test_audit.py",
    "pipelines": "../pipelines/test_json.py",
}


def test_every_command_is_in_the_table_or_has_a_reason() -> None:
    in_table = {line.split()[0] for line, _, _ in EXPECTED}
    assert {*in_table, *ELSEWHERE, *WITHOUT_JSON} == {*COMMANDS}
    assert not in_table & {*WITHOUT_JSON, *ELSEWHERE}


def test_every_shape_is_that_of_a_command() -> None:
    for shape in SHAPES[2:]:
        assert shape.calls.replace(",", " ").split()[0] in COMMANDS, shape.calls
