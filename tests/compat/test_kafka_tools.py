"""Kafka's own command-line tools, of 3.9 and of 4.1: the tutorial and what comes after it.

One test is one story, because each call of a tool starts a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

Run = Callable[..., Finished]


@pytest.fixture
def run(any_broker: Broker, kafka_tools: ApacheKafka) -> Run:
    """Run a tool of either release against either broker and insist on exit code 0."""

    def tool(name: str, *arguments: str, stdin: str = "") -> Finished:
        at = ("--bootstrap-server", any_broker.bootstrap)
        return kafka_tools.check(name, *at, *arguments, stdin=stdin)

    return tool


@pytest.fixture
def refused(any_broker: Broker, kafka_tools: ApacheKafka) -> Run:
    """Run a tool and insist on exit code 1."""

    def tool(name: str, *arguments: str) -> Finished:
        finished = kafka_tools.tool(name, "--bootstrap-server", any_broker.bootstrap, *arguments)
        assert finished.code == 1, str(finished)
        return finished

    return tool


def _rows(finished: Finished) -> list[list[str]]:
    """Return the words of each line below the heading of a table."""
    return [line.split() for line in finished.lines if line.strip()][1:]


def test_topics_are_created_listed_described_altered_and_deleted(
    run: Run, refused: Run, fresh_name: str
) -> None:
    topic = ("--topic", fresh_name)
    created = run(
        "kafka-topics", "--create", *topic, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert created.out == f"Created topic {fresh_name}.\n"
    again = refused("kafka-topics", "--create", *topic)
    assert f"Topic '{fresh_name}' already exists." in again.out
    run("kafka-topics", "--create", *topic, "--if-not-exists")
    assert fresh_name in run("kafka-topics", "--list").lines

    run("kafka-topics", "--alter", *topic, "--partitions", "5")
    described = run("kafka-topics", "--describe", *topic).lines
    assert described[0].startswith(f"Topic: {fresh_name}\tTopicId: ")
    assert "\tPartitionCount: 5\tReplicationFactor: 1\tConfigs: " in described[0]
    assert "retention.ms=60000" in described[0]
    partition = f"\tTopic: {fresh_name}\tPartition: {{}}\tLeader: 0\tReplicas: 0\tIsr: 0"
    for number, line in enumerate(described[1:]):
        assert line.startswith(partition.format(number))
    assert len(described) == 6

    run("kafka-topics", "--delete", *topic)
    assert fresh_name not in run("kafka-topics", "--list").lines
    assert "does not exist as expected" in refused("kafka-topics", "--describe", *topic).out


def test_topics_refuse_what_kafka_refuses(refused: Run, run: Run, fresh_name: str) -> None:
    create = ("kafka-topics", "--create", "--topic")
    replicas = refused(*create, fresh_name, "--replication-factor", "2")
    assert "InvalidReplicationFactorException" in replicas.err
    invalid = refused(*create, "no/slash")
    assert "InvalidTopicException" in invalid.err
    run(*create, fresh_name, "--partitions", "2")
    fewer = refused("kafka-topics", "--alter", "--topic", fresh_name, "--partitions", "1")
    assert "InvalidPartitionsException" in fewer.err


def test_console_producer_feeds_console_consumer(run: Run, fresh_name: str) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name, "--partitions", "3")
    parse = ("--property", "parse.key=true", "--property", "parse.headers=true")
    lines = "h1:v1,h2:v2\tk1\thello\nh1:v1\tk2\tworld\n"
    run("kafka-console-producer", "--topic", fresh_name, *parse, stdin=lines)
    shown = ("key", "headers", "offset", "partition", "timestamp")
    show = [part for name in shown for part in ("--property", f"print.{name}=true")]
    at = ("--topic", fresh_name, "--from-beginning", "--max-messages", "2")
    consumed = run("kafka-console-consumer", *at, "--timeout-ms", "20000", *show)
    fields = sorted(line.split("\t") for line in consumed.lines)
    assert [f[3:] for f in sorted(fields, key=lambda f: f[4])] == [
        ["h1:v1,h2:v2", "k1", "hello"],
        ["h1:v1", "k2", "world"],
    ]
    assert all(f[0].startswith("CreateTime:1") for f in fields)
    assert "Processed a total of 2 messages" in consumed.err


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_producer_creates_its_topic_and_compresses(
    codec: str, any_broker: Broker, fresh_name: str
) -> None:
    kafka = ApacheKafka("4.1")
    at = ("--bootstrap-server", any_broker.bootstrap, "--topic", fresh_name)
    text = "".join(f"line {number}\n" for number in range(500))
    kafka.check("kafka-console-producer", *at, "--compression-codec", codec, stdin=text)
    limits = ("--from-beginning", "--max-messages", "500", "--timeout-ms", "20000")
    assert kafka.check("kafka-console-consumer", *at, *limits).out == text


def test_console_consumer_starts_at_the_requested_offset(run: Run, fresh_name: str) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name)
    text = "".join(f"{number}\n" for number in range(10))
    run("kafka-console-producer", "--topic", fresh_name, stdin=text)
    at = (
        "kafka-console-consumer",
        "--topic",
        fresh_name,
        "--timeout-ms",
        "20000",
        "--partition",
        "0",
    )
    assert run(*at, "--offset", "7", "--max-messages", "3").lines == ["7", "8", "9"]
    assert run(*at, "--offset", "earliest", "--max-messages", "2").lines == ["0", "1"]


@pytest.mark.parametrize(
    "kafka_tools", [pytest.param("3.9", marks=pytest.mark.long), "4.1"], indirect=True
)
def test_consumer_groups_are_listed_described_reset_and_deleted(
    run: Run, refused: Run, fresh_name: str
) -> None:
    group = ("--group", fresh_name)
    run("kafka-topics", "--create", "--topic", fresh_name, "--partitions", "2")
    run("kafka-console-producer", "--topic", fresh_name, stdin="a\nb\nc\n")
    consume = ("--topic", fresh_name, *group, "--from-beginning", "--max-messages", "3")
    run("kafka-console-consumer", *consume, "--timeout-ms", "20000")
    assert fresh_name in run("kafka-consumer-groups", "--list").lines

    described = run("kafka-consumer-groups", "--describe", *group)
    assert f"Consumer group '{fresh_name}' has no active members." in described.err
    rows = _rows(described)
    assert sorted(row[2] for row in rows) == ["0", "1"]
    assert sum(int(row[3]) for row in rows) == 3
    assert {row[5] for row in rows} == {"0"}, "no lag"
    state = _rows(run("kafka-consumer-groups", "--describe", *group, "--state"))[0]
    assert "Empty" in state
    assert state[-1] == "0"
    assert _rows(run("kafka-consumer-groups", "--describe", *group, "--members")) == []

    reset = (*group, "--topic", fresh_name, "--reset-offsets")
    run("kafka-consumer-groups", *reset, "--to-earliest", "--dry-run")
    assert sum(int(r[3]) for r in _rows(run("kafka-consumer-groups", "--describe", *group))) == 3
    moved = run("kafka-consumer-groups", *reset, "--to-earliest", "--execute")
    assert "NEW-OFFSET" in moved.out
    assert sum(int(r[5]) for r in _rows(run("kafka-consumer-groups", "--describe", *group))) == 3
    run("kafka-consumer-groups", *reset, "--to-latest", "--execute")
    run("kafka-consumer-groups", *reset, "--shift-by", "-1", "--execute")

    # Of one partition: a group without members and offsets is gone, with Apache Kafka 3.9 at once, with 4.1 later.
    forgotten = run(
        "kafka-consumer-groups", *group, "--delete-offsets", "--topic", f"{fresh_name}:0"
    )
    assert forgotten.out.count("Successful") == 1
    deleted = run("kafka-consumer-groups", "--delete", *group)
    assert "was successful" in deleted.out
    assert fresh_name not in run("kafka-consumer-groups", "--list").lines
    missing = run("kafka-consumer-groups", "--delete", *group)
    assert "GroupIdNotFoundException" in missing.out + missing.err


def test_offsets_are_shown_and_records_deleted(run: Run, fresh_name: str, tmp_path: Path) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name)
    run("kafka-console-producer", "--topic", fresh_name, stdin="a\nb\nc\nd\n")

    def offset(time: str) -> str:
        return run("kafka-get-offsets", "--topic", fresh_name, "--time", time).out

    assert offset("earliest") == f"{fresh_name}:0:0\n"
    assert offset("latest") == f"{fresh_name}:0:4\n"
    assert offset("max-timestamp").startswith(f"{fresh_name}:0:")
    assert offset("1") == f"{fresh_name}:0:0\n"

    plan = tmp_path / "delete.json"
    wanted = {"topic": fresh_name, "partition": 0, "offset": 3}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    done = run("kafka-delete-records", "--offset-json-file", str(plan))
    assert f"partition: {fresh_name}-0\tlow_watermark: 3" in done.out
    assert offset("earliest") == f"{fresh_name}:0:3\n"
    at = ("--topic", fresh_name, "--from-beginning", "--max-messages", "1")
    assert run("kafka-console-consumer", *at, "--timeout-ms", "20000").lines == ["d"]


def test_configs_of_a_topic_are_described_and_altered(
    run: Run, refused: Run, fresh_name: str
) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name)
    entity = ("--entity-type", "topics", "--entity-name", fresh_name)
    add = ("kafka-configs", *entity, "--alter", "--add-config")
    changed = run(*add, "retention.ms=3600000,max.message.bytes=2000000")
    assert changed.out == f"Completed updating config for topic {fresh_name}.\n"
    described = run("kafka-configs", *entity, "--describe").lines
    assert described[0] == f"Dynamic configs for topic {fresh_name} are:"
    by_name = {line.split("=")[0].strip(): line for line in described[1:]}
    assert by_name["retention.ms"] == (
        "  retention.ms=3600000 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=3600000}"
    )
    assert by_name["max.message.bytes"] == (
        "  max.message.bytes=2000000 sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    )
    everything = run("kafka-configs", *entity, "--describe", "--all").out
    assert "  cleanup.policy=delete sensitive=false" in everything
    assert "  segment.bytes=1073741824 sensitive=false" in everything

    assert "InvalidConfigurationException" in refused(*add, "max.message.bytes=-5").err
    unknown = refused(*add, "no.such.setting=1")
    assert "InvalidConfigurationException" in unknown.err
    run("kafka-configs", *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in run("kafka-configs", *entity, "--describe").out
    broker = ("--entity-type", "brokers", "--entity-name", "0", "--describe")
    assert run("kafka-configs", *broker).lines[0] == "Dynamic configs for broker 0 are:"
    assert "log.segment.bytes=" in run("kafka-configs", *broker, "--all").out


def test_configs_of_a_broker_are_altered_without_loss(
    run: Run, refused: Run, kafka_tools: ApacheKafka
) -> None:
    entity = ("kafka-configs", "--entity-type", "brokers", "--entity-name", "0")
    unknown = (
        "  their.plugin.size=null sensitive=true "
        "synonyms={DYNAMIC_BROKER_CONFIG:their.plugin.size=null}"
    )
    add = (*entity, "--alter", "--add-config")
    run(*add, "num.io.threads=9,their.plugin.size=7")
    try:
        assert unknown in run(*entity, "--describe").lines
        change = (*add, "log.cleaner.threads=2")
        if kafka_tools.release.startswith("3"):  # all that is dynamic is sent back
            missing = "All sensitive broker config entries must be specified for --alter"
            assert missing in refused(*change).err
            run(*add, "log.cleaner.threads=2,their.plugin.size=8")
        else:
            run(*change)
        shown = run(*entity, "--describe").lines
        assert unknown in shown
        kept = [line.split()[0] for line in shown[1:]]
        assert kept == ["log.cleaner.threads=2", "num.io.threads=9", "their.plugin.size=null"]
    finally:
        run(*entity, "--alter", "--delete-config", "num.io.threads,their.plugin.size")
        run(*entity, "--alter", "--delete-config", "log.cleaner.threads")
    everything = {line.split()[0] for line in run(*entity, "--describe", "--all").lines}
    assert {"log.retention.ms=null", "log.roll.ms=null", "log.flush.interval.ms=null"} <= everything


def test_levels_of_loggers_are_described_and_altered(run: Run, refused: Run) -> None:
    entity = ("kafka-configs", "--entity-type", "broker-loggers", "--entity-name", "0")
    described = run(*entity, "--describe").lines
    (root,) = [line for line in described if line.startswith("  root=")]
    assert root.endswith(" sensitive=false synonyms={}")
    level = root.removeprefix("  root=").split()[0]
    for other in ("WARN", level):
        changed = run(*entity, "--alter", "--add-config", f"root={other}")
        assert changed.out == "Completed updating config for broker-logger 0.\n"
        assert f"  root={other} sensitive=false synonyms={{}}" in run(*entity, "--describe").lines
    bad = refused(*entity, "--alter", "--add-config", "root=LOUD")
    assert "InvalidConfigurationException" in bad.err
    assert "Invalid broker logger(s): no.such" in (
        refused(*entity, "--alter", "--add-config", "no.such=INFO").err
    )


def test_log_directories_and_versions_are_shown(
    run: Run, any_broker: Broker, fresh_name: str
) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name)
    run("kafka-console-producer", "--topic", fresh_name, stdin="abc\n")
    shown = run("kafka-log-dirs", "--describe", "--topic-list", fresh_name).lines
    assert shown[1] == "Received log directory information from brokers 0"
    directory = json.loads(shown[2])["brokers"][0]["logDirs"][0]
    assert directory["logDir"] == str(any_broker.log_directory)
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    log = any_broker.log_directory / f"{fresh_name}-0" / ("0" * 20 + ".log")
    assert partition["partition"] == f"{fresh_name}-0"
    assert partition["size"] == log.stat().st_size > 0

    versions = run("kafka-broker-api-versions").lines
    assert versions[0].startswith(f"127.0.0.1:{any_broker.port} (id: 0 rack: null")
    assert "\tProduce(0): 0 to " in "\n".join(versions)
    assert any("ApiVersions(18): 0 to" in line for line in versions)


def test_performance_tools_run_to_their_end(
    any_broker: Broker, kafka_tools: ApacheKafka, run: Run, fresh_name: str
) -> None:
    run("kafka-topics", "--create", "--topic", fresh_name, "--partitions", "3")
    for settings in ("acks=1", "acks=all compression.type=lz4", "acks=0 batch.size=0"):
        load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
        props = [f"bootstrap.servers={any_broker.bootstrap}", *settings.split()]
        produced = kafka_tools.check(
            "kafka-producer-perf-test", "--topic", fresh_name, *load, "--producer-props", *props
        )
        assert "20000 records sent, " in produced.lines[-1]
    consumed = run("kafka-consumer-perf-test", "--topic", fresh_name, "--messages", "60000")
    assert int(consumed.lines[1].split(", ")[4]) >= 60_000


def test_end_to_end_latency_is_measured(any_broker: Broker, fresh_name: str) -> None:
    kafka = ApacheKafka("4.1")
    measured = kafka.check(
        "kafka-e2e-latency", any_broker.bootstrap, fresh_name, "200", "all", "100"
    )
    assert measured.lines[-1].startswith("Percentiles: 50th = ")


def test_verifiable_producer_and_consumer_agree(any_broker: Broker, fresh_name: str) -> None:
    kafka = ApacheKafka("4.1")
    at = ("--bootstrap-server", any_broker.bootstrap, "--topic", fresh_name)
    sent = kafka.check("kafka-verifiable-producer", *at, "--max-messages", "500", "--acks", "-1")
    events = [json.loads(line) for line in sent.lines]
    assert events[-1]["name"] == "tool_data"
    assert (events[-1]["sent"], events[-1]["acked"]) == (500, 500)
    read = kafka.check(
        "kafka-verifiable-consumer", *at, "--group-id", fresh_name, "--max-messages", "500",
        "--reset-policy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in read.lines]
    assert sum(e["count"] for e in events if e["name"] == "records_consumed") == 500
    assert all(e["success"] for e in events if e["name"] == "offsets_committed")
