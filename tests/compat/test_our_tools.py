"""Our tools beside Apache Kafka's on the same broker.

What is compared runs as a process; what only prepares or follows up runs in this one.
What both print is compared byte for byte, but for the order of lines (Kafka's comes out of hash tables) and the
messages on standard error, where Kafka adds frames of the JVM.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kavka.cli.main import main
from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.ours import kavka_command

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

Run = Callable[..., Finished]

FIRST_MS = 1_700_000_000_000
"""The time of the first record of `filled`; the others follow second by second."""


@pytest.fixture
def ours(any_broker: Broker) -> Run:
    """Run one of our tools in this process, which is quick: `ours("topics", "--list")`."""

    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        argv = [tool, "--bootstrap-server", any_broker.bootstrap, *arguments]
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            finished = Finished(main(argv), out.getvalue(), err.getvalue())
        assert finished.code == code, f"{tool} {' '.join(arguments)}: {finished}"
        return finished

    return run


@pytest.fixture
def process(any_broker: Broker) -> Run:
    """Run one of our tools as a user does."""

    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        command = kavka_command(tool, "--bootstrap-server", any_broker.bootstrap, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        finished = Finished(done.returncode, done.stdout, done.stderr)
        assert finished.code == code, f"{tool} {' '.join(arguments)}: {finished}"
        return finished

    return run


@pytest.fixture
def same(any_broker: Broker, process: Run) -> Run:
    """Run our tool and Kafka's, insist on the same code and the same lines, return what ours left."""
    kafka = ApacheKafka("4.1")

    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        mine = process(tool, *arguments, code=code)
        at = ("--bootstrap-server", any_broker.bootstrap)
        theirs = kafka.tool(f"kafka-{tool}", *at, *arguments)
        assert theirs.code == code, str(theirs)
        assert sorted(mine.lines) == sorted(theirs.lines)
        return mine

    return run


@pytest.fixture
def filled(ours: Run, any_broker: Broker, fresh_name: str) -> str:
    """A topic of two partitions with the records 0 to 9 in each, a second apart."""
    keep = ("--config", "retention.ms=-1")
    ours("topics", "--create", "--topic", fresh_name, "--partitions", "2", *keep)
    producer = Producer({"bootstrap.servers": any_broker.bootstrap})
    for number in range(20):
        producer.produce(
            fresh_name, b"v", partition=number % 2, timestamp=FIRST_MS + number // 2 * 1000
        )
    assert producer.flush(30) == 0
    return fresh_name


def _rows(finished: Finished) -> list[list[str]]:
    """Return the words of each line below the heading of a table."""
    lines = [line.split() for line in finished.lines if line.strip()]
    heading = next(i for i, words in enumerate(lines) if "PARTITION" in words)
    return lines[heading + 1 :]


# Topics


def test_topics_are_shown_as_kafka_shows_them(same: Run, ours: Run, fresh_name: str) -> None:
    settings = ("--config", "cleanup.policy=compact,delete", "--config", "retention.ms=60000")
    created = ours("topics", "--create", "--topic", fresh_name, "--partitions", "3", *settings)
    assert created.out == f"Created topic {fresh_name}.\n"
    topic = ("--topic", fresh_name)
    described = same("topics", "--describe", *topic)
    assert "retention.ms=60000" in described.lines[0]
    assert len(described.lines) == 4
    assert len(same("topics", "--describe", *topic, "--topics-with-overrides").lines) == 1
    assert len(same("topics", "--describe", *topic, "--at-min-isr-partitions").lines) == 3
    again = ours("topics", "--create", *topic, code=1)
    assert (
        again.out == f"Error while executing topic command : Topic '{fresh_name}' already exists.\n"
    )
    assert "org.apache.kafka.common.errors.TopicExistsException" in again.err
    same("topics", "--describe", "--topic", f"{fresh_name}-missing", code=1)


def test_topics_grow_and_go(ours: Run, fresh_name: str) -> None:
    topic = ("--topic", fresh_name)
    ours("topics", "--create", *topic, "--partitions", "1")
    assert ours("topics", "--create", *topic, "--if-not-exists").out == ""
    ours("topics", "--alter", *topic, "--partitions", "3", "--replica-assignment", "0,0,0")
    assert len(ours("topics", "--describe", *topic).lines) == 4
    fewer = ours("topics", "--alter", *topic, "--partitions", "2", code=1)
    assert "InvalidPartitionsException" in fewer.err
    for report in ("under-replicated", "unavailable", "under-min-isr"):
        assert ours("topics", "--describe", *topic, f"--{report}-partitions").out == ""
    listed = ours("topics", "--list", "--topic", f"{fresh_name}.*|none", "--exclude-internal")
    assert listed.lines == [fresh_name]
    ours("topics", "--delete", *topic)
    assert fresh_name not in ours("topics", "--list").lines
    gone = ours("topics", "--delete", *topic, code=1)
    assert f"Topic '{fresh_name}' does not exist as expected" in gone.out
    assert ours("topics", "--delete", *topic, "--if-exists").out == ""


def test_a_topic_is_found_by_its_id(ours: Run, fresh_name: str) -> None:
    ours("topics", "--create", "--topic", fresh_name, "--replica-assignment", "0,0")
    described = ours("topics", "--describe", "--topic", fresh_name)
    topic_id = re.search(r"TopicId: (\S+)", described.out)
    assert topic_id is not None
    assert ours("topics", "--describe", f"--topic-id={topic_id[1]}").out == described.out


def test_topics_that_may_not_be_are_refused(ours: Run, fresh_name: str) -> None:
    for extra, error in [
        (("--replication-factor", "3"), "InvalidReplicationFactorException"),
        (("--config", "nosuch=1"), "InvalidConfigurationException"),
        (("--partitions", "0"), "The partitions must be greater than 0"),
    ]:
        refused = ours("topics", "--create", "--topic", fresh_name, *extra, code=1)
        assert refused.out.startswith("Error while executing topic command : ")
        assert error in refused.err
    assert "InvalidTopicException" in ours("topics", "--create", "--topic", "a/b", code=1).err


# Groups


def _reset(ours: Run, group: str, *arguments: str) -> list[list[str]]:
    """Return topic, partition and new offset of each row."""
    finished = ours("consumer-groups", "--reset-offsets", "--group", group, *arguments)
    return [row[1:] for row in _rows(finished)]


def test_offsets_of_a_group_are_reset_by_every_scenario(
    ours: Run, filled: str, tmp_path: Path
) -> None:
    group = f"{filled}-group"
    topic = ("--topic", f"{filled}:0,1")

    def rows(first: int, second: int) -> list[list[str]]:
        return [[filled, "0", str(first)], [filled, "1", str(second)]]

    assert _reset(ours, group, *topic, "--to-offset", "4", "--execute") == rows(4, 4)
    dry = (*topic, "--dry-run")
    assert _reset(ours, group, *dry, "--to-earliest") == rows(0, 0)
    assert _reset(ours, group, *dry, "--to-latest") == rows(10, 10)
    assert _reset(ours, group, *dry, "--to-current") == rows(4, 4)
    assert _reset(ours, group, *dry, "--shift-by", "-2") == rows(2, 2)
    assert _reset(ours, group, *dry, "--shift-by", "70") == rows(10, 10)
    assert _reset(ours, group, *dry, "--to-datetime", "2023-11-14T22:13:25.000") == rows(5, 5)
    assert _reset(ours, group, *dry, "--by-duration", "PT1M") == rows(10, 10)
    plan = ours(
        "consumer-groups", "--reset-offsets", "--group", group, "--all-topics", "--to-current", "--export", "--dry-run"
    )  # fmt: skip
    assert plan.out == f"{filled},0,4\n{filled},1,4\n\n"
    path = tmp_path / "plan.csv"
    path.write_text(plan.out.replace(",4", ",6"))
    assert _reset(ours, group, "--from-file", str(path), "--execute") == rows(6, 6)
    assert _reset(ours, group, "--all-topics", "--to-current", "--dry-run") == rows(6, 6)


def test_resets_that_make_no_sense_are_refused(ours: Run, filled: str) -> None:
    group = f"{filled}-group"
    reset = ("consumer-groups", "--reset-offsets", "--group", group, "--dry-run")
    unshifted = ours(*reset, "--topic", filled, "--shift-by", "1", code=1)
    assert f"Cannot shift offset for partition {filled}-0" in unshifted.err
    missing = ours(*reset, "--topic", f"{filled}-missing", "--to-latest")
    assert missing.out == (
        "\nError: Executing consumer group command failed due to This server does not host this topic-partition.\n"
    )
    no_scope = ours(*reset, "--to-latest", code=1)
    assert "One of the reset scopes should be defined: --all-topics, --topic." in no_scope.err
    no_scenario = ours(*reset, "--topic", filled, code=1)
    assert "requires one of the following scenarios" in no_scenario.err


def test_a_group_without_members_is_shown_as_kafka_shows_it(
    same: Run, ours: Run, filled: str
) -> None:
    group = f"{filled}-group"
    execute = ("--topic", filled, "--to-offset", "4", "--execute")
    ours("consumer-groups", "--reset-offsets", "--group", group, *execute)
    describe = ("consumer-groups", "--describe", "--group", group)
    shown = same(*describe)
    assert f"Consumer group '{group}' has no active members." in shown.err
    assert [row[2:6] for row in _rows(shown)] == [[p, "4", "10", "6"] for p in ("0", "1")]
    same(*describe, "--members")
    assert "Empty" in same(*describe, "--state").out
    plan = ("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--dry-run")
    same("consumer-groups", *plan)


def test_offsets_and_groups_are_deleted_as_kafka_deletes_them(ours: Run, filled: str) -> None:
    group = f"{filled}-group"
    execute = ("--topic", filled, "--to-offset", "4", "--execute")
    ours("consumer-groups", "--reset-offsets", "--group", group, *execute)
    assert group in ours("consumer-groups", "--list").lines
    deleted = ours(
        "consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{filled}:0"
    )
    assert deleted.out == (
        f"Request succeeded for deleting offsets from group {group}.\n\n"
        f"TOPIC           PARTITION  STATUS         \n{filled:<15} 0          Successful     \n"
    )
    assert [row[2] for row in _rows(ours("consumer-groups", "--describe", "--group", group))] == [
        "1"
    ]
    gone = ours("consumer-groups", "--delete", "--group", group)
    assert gone.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    again = ours("consumer-groups", "--delete", "--group", group)
    assert again.out == (
        f"\nError: Deletion of some consumer groups failed:\n* Group '{group}' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.\n"
    )
    unknown = ours("consumer-groups", "--describe", "--group", group)
    assert unknown.out == f"\nError: Consumer group '{group}' does not exist.\n"


@pytest.fixture
def member(any_broker: Broker, filled: str) -> Iterator[str]:
    """A group with one static member that has read all of `filled`; gives its name."""
    group = f"{filled}-alive"
    consumer = Consumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": group,
            "group.instance.id": "one",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([filled])
    assert len(consumer.consume(20, timeout=30)) == 20
    consumer.commit(asynchronous=False)
    yield group
    consumer.close()


def test_a_group_with_members_is_shown_as_kafka_shows_it(
    same: Run, ours: Run, filled: str, member: str
) -> None:
    describe = ("consumer-groups", "--describe", "--group", member)
    assert [row[-1] for row in _rows(same(*describe, "--verbose"))] == ["reader", "reader"]
    assert f"{filled}:0,1" in same(*describe, "--members", "--verbose").out
    same(*describe, "--state", "--verbose")
    stable = ours("consumer-groups", "--list", "--type", "--state", "stable")
    assert [member, "Classic", "Stable"] in [line.split() for line in stable.lines]
    same(
        "consumer-groups",
        "--reset-offsets",
        "--group",
        member,
        "--topic",
        filled,
        "--to-latest",
        "--execute",
    )
    same("consumer-groups", "--delete-offsets", "--group", member, "--topic", f"{filled}:1")
    refused = ours("consumer-groups", "--delete", "--group", member)
    assert "GroupNotEmptyException: The group is not empty." in refused.out


def test_a_group_of_the_new_protocol_is_not_called_missing(
    apache_kafka: Broker, fresh_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", apache_kafka.bootstrap)
    assert main(["topics", *at, "--create", "--topic", fresh_name]) == 0
    settings = {
        "bootstrap.servers": apache_kafka.bootstrap,
        "group.id": fresh_name,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap})
    producer.produce(fresh_name, b"v")
    assert producer.flush(30) == 0
    consumer = Consumer(settings)
    consumer.subscribe([fresh_name])
    assert len(consumer.consume(1, timeout=30)) == 1
    capsys.readouterr()
    assert main(["consumer-groups", *at, "--describe", "--group", fresh_name]) == 0
    consumer.close()
    assert capsys.readouterr().out == (
        f"\nError: Consumer group '{fresh_name}' is of type Consumer; this release describes groups of type Classic "
        "only.\n"
    )


# Configurations


def test_settings_of_a_topic_are_altered_and_shown_as_kafka_shows_them(
    same: Run, ours: Run, fresh_name: str, tmp_path: Path
) -> None:
    ours("topics", "--create", "--topic", fresh_name)
    topic = ("--entity-type", "topics", "--entity-name", fresh_name)
    added = "retention.ms=5000,cleanup.policy=[compact,delete]"
    changed = ours("configs", "--alter", *topic, "--add-config", added)
    assert changed.out == f"Completed updating config for topic {fresh_name}.\n"
    path = tmp_path / "added.properties"
    path.write_text("segment.bytes = 2000000\n")
    more = ("--add-config-file", str(path), "--delete-config", "retention.ms")
    ours("configs", "--alter", *topic, *more)
    described = same("configs", "--describe", "--topic", fresh_name, "--all")
    assert "  segment.bytes=2000000 sensitive=false" in described.out
    assert "  cleanup.policy=compact,delete sensitive=false" in described.out
    unknown = ours("configs", "--alter", *topic, "--delete-config", "retention.ms", code=1)
    assert unknown.err == "Invalid config(s): retention.ms\n"
    refused = ours("configs", "--alter", *topic, "--add-config", "retention.ms=x", code=1)
    assert "InvalidConfigurationException: Invalid value x for configuration" in refused.err
    missing = ours("configs", "--describe", "--topic", f"{fresh_name}-missing")
    assert "doesn't exist and doesn't have dynamic config." in missing.out


def test_settings_of_brokers_are_altered_and_shown_as_kafka_shows_them(
    same: Run, ours: Run
) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "0")
    every = ("--entity-type", "brokers", "--entity-default")
    setting = ("--add-config", "log.retention.ms=900000000")
    assert ours("configs", "--alter", *one, *setting).out == (
        "Completed updating config for broker 0.\n"
    )
    assert ours("configs", "--alter", *every, *setting).out == (
        "Completed updating default config for brokers in the cluster.\n"
    )
    try:
        same("configs", "--describe", "--entity-type", "brokers")
        fixed = ours("configs", "--alter", *one, "--add-config", "log.dirs=/x", code=1)
        assert "InvalidRequestException" in fixed.err
    finally:
        for entity in (one, every):
            ours("configs", "--alter", *entity, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in ours("configs", "--describe", *one).out


def test_quotas_are_set_and_shown_as_by_kafkas_tool(same: Run, ours: Run) -> None:
    both = ("--entity-type", "users", "--entity-name", "ann b", "--entity-type", "clients")
    entities: tuple[tuple[tuple[str, ...], str], ...] = (
        ((*both, "--entity-default"), "producer_byte_rate=1048576,request_percentage=12.5"),
        (("--entity-type", "clients", "--entity-default"), "consumer_byte_rate=20000000"),
        (("--entity-type", "ips", "--entity-name", "10.0.0.7"), "connection_creation_rate=5"),
    )
    for entity, quotas in entities:
        altered = ours("configs", "--alter", *entity, "--add-config", quotas)
        assert altered.lines[0].startswith("Completed updating")
    shown: list[tuple[str, ...]] = [both, *(each for each, _quotas in entities[1:])]
    for entity in shown:
        assert same("configs", "--describe", *entity).lines[0].startswith("Quota configs for ")
    for entity, quotas in entities:
        keys = ",".join(pair.partition("=")[0] for pair in quotas.split(","))
        ours("configs", "--alter", *entity, "--delete-config", keys)
        assert ours("configs", "--describe", *entity).out == ""
    unknown = ours("configs", "--alter", *entities[0][0], "--delete-config", "x", code=1)
    assert "Only quota configs can be deleted for 'clients'" in unknown.err


# Offsets, records, disks, versions


def test_offsets_are_printed_as_kafka_prints_them(same: Run, ours: Run, filled: str) -> None:
    topic = ("get-offsets", "--topic", filled)
    assert same(*topic).lines == [f"{filled}:0:10", f"{filled}:1:10"]
    assert same(*topic, "--time", str(FIRST_MS + 3000)).lines == [f"{filled}:0:3", f"{filled}:1:3"]
    assert ours(*topic, "--time", "-2", "--partitions", "1").lines == [f"{filled}:1:0"]
    assert ours(*topic, "--time", "max-timestamp").lines == [f"{filled}:0:9", f"{filled}:1:9"]
    assert ours(*topic, "--time", "9999999999999").out == ""
    ranges = f"{filled}:1-,{filled}x:0"
    assert ours("get-offsets", "--topic-partitions", ranges).lines == [f"{filled}:1:10"]
    missing = ours("get-offsets", "--topic", f"{filled}-missing", code=1)
    assert missing.err == (
        "Error occurred: Could not match any topic-partitions with the specified filters\n"
    )


def test_records_are_deleted_below_an_offset(
    same: Run, ours: Run, filled: str, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.json"
    wanted = [(0, 3), (1, -1)]
    parts = [{"topic": filled, "partition": p, "offset": offset} for p, offset in wanted]
    path.write_text(json.dumps({"version": 1, "partitions": parts}))
    deleted = same("delete-records", "--offset-json-file", str(path))
    assert deleted.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {filled}-0\tlow_watermark: 3",
        f"partition: {filled}-1\tlow_watermark: 10",
    ]
    earliest = ours("get-offsets", "--topic", filled, "--time", "earliest")
    assert earliest.lines == [f"{filled}:0:3", f"{filled}:1:10"]
    path.write_text(json.dumps({"partitions": [{**parts[0], "offset": 11}]}))
    refused = ours("delete-records", "--offset-json-file", str(path))
    assert "OffsetOutOfRangeException" in refused.lines[-1]


def test_log_directories_are_shown_as_kafka_shows_them(
    any_broker: Broker, ours: Run, process: Run, filled: str
) -> None:
    at = ("--bootstrap-server", any_broker.bootstrap, "--describe", "--topic-list", filled)
    theirs = ApacheKafka("4.1").check("kafka-log-dirs", *at)
    mine = process("log-dirs", "--describe", "--topic-list", filled)
    assert mine.lines[:2] == theirs.lines[:2]
    shown, expected = (json.loads(finished.lines[2]) for finished in (mine, theirs))
    for document in (shown, expected):
        document["brokers"][0]["logDirs"][0]["partitions"].sort(key=lambda p: p["partition"])
    assert shown == expected
    [log_dir] = shown["brokers"][0]["logDirs"]
    assert log_dir["logDir"] == str(any_broker.log_directory)
    assert [part["partition"] for part in log_dir["partitions"]] == [f"{filled}-0", f"{filled}-1"]
    no_brokers = ours("log-dirs", "--describe", "--broker-list", "0,7", code=1)
    assert no_brokers.err == (
        "ERROR: The given brokers do not exist from --broker-list: 7. Current existent brokers: 0\n"
    )


def test_versions_are_those_that_kafkas_tool_finds(any_broker: Broker, process: Run) -> None:
    at = ("--bootstrap-server", any_broker.bootstrap)
    theirs = ApacheKafka("3.9").check("kafka-broker-api-versions", *at)
    mine = process("broker-api-versions")
    assert mine.lines[0] == theirs.lines[0]
    served = re.compile(r"^\t\w+(\(\d+\): \d+(?: to \d+)?)", re.MULTILINE)
    assert served.findall(mine.out) == served.findall(theirs.out)
    assert "\tApiVersions(18): 0 to 4 [usable: 4],\n" in mine.out
    assert mine.lines[-1] == ")"


def test_settings_of_the_client_come_from_a_file(ours: Run, process: Run, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=tool\nrequest.timeout.ms=20000\n")
    process("topics", "--list", "--command-config", str(path))
    path.write_text("security.protocol=NONSENSE\n")
    assert (
        "security.protocol" in ours("topics", "--list", "--command-config", str(path), code=1).err
    )
