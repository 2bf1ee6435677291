"""Refusals of the tools before they ask any broker: no broker runs here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TOPICS = "kavka.cli.commands.topics --bootstrap-server 127.0.0.1:1"
GROUPS = "kavka.cli.commands.consumer_groups --bootstrap-server 127.0.0.1:1"
CONFIGS = "kavka.cli.commands.configs --bootstrap-server 127.0.0.1:1"
PRODUCING = "kavka.cli.commands.producer_perf_test --bootstrap-server a:1 --topic t --num-records 1 --throughput 1"
OFFSETS = "kavka.cli.commands.get_offsets --bootstrap-server 127.0.0.1:1"

REASSIGN = "kavka.cli.commands.reassign_partitions --bootstrap-server 127.0.0.1:1"
ACLS = "kavka.cli.commands.acls --bootstrap-server 127.0.0.1:1"
ELECT = "kavka.cli.commands.leader_election --bootstrap-server 127.0.0.1:1"


def _run(command: str) -> int:
    module, *words = command.split()
    code: int = importlib.import_module(module).main(words)
    return code


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("kavka.cli.commands.topics --list", "--bootstrap-server must be specified"),
        ("kavka.cli.commands.acls --list", 'Missing required argument "[bootstrap-server]"'),
        ("kavka.cli.commands.acls --list --bootstrap-controller a:1", "use --bootstrap-server"),
        (f"{ACLS} --list --add", "Command must include exactly one action: --list, --add, --remove."),
        (f"{ACLS} --list --producer", 'Option "[list]" can\'t be used with option "[producer]"'),
        (f"{ACLS} --add --producer --allow-principal User:a", "With --producer you must specify a --topic"),
        (f"{ACLS} --add --consumer --topic t", "With --consumer you must specify a --topic and a --group"),
        (
            f"{ACLS} --add --producer --topic t --operation Read",
            'Option "[producer]" can\'t be used with option "[operation]"',
        ),
        (f"{ACLS} --add --allow-principal User:a", "You must provide at least one resource"),
        (f"{ACLS} --add --topic t", "You must specify one of: --allow-principal, --deny-principal"),
        (f"{ACLS} --add --topic t --allow-principal alice", "principalType:principalName but got alice"),
        (f"{ACLS} --add --topic t --allow-principal User:a --operation Fly", "'Fly' is not one of Any, All, Read"),
        (
            f"{ACLS} --add --group g --allow-principal User:a --operation Write",
            "ResourceType GROUP only supports operations [READ, DELETE, DESCRIBE, ALL]",
        ),
        (
            f"{ACLS} --add --topic t --allow-principal User:a --resource-pattern-type match",
            "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
        ),
        (f"{TOPICS} --list --delete", "exactly one action: --list, --describe, --create, --alter or --delete"),
        (f"{TOPICS} --create", 'Missing required argument "[topic]"'),
        (f"{TOPICS} --alter --topic t", 'Missing required argument "[partitions]"'),
        (f"{TOPICS} --list --if-exists", 'Option "[if-exists]" can\'t be used with option "[list]"'),
        (
            f"{TOPICS} --create --topic t --replica-assignment 0 --partitions 2",
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (
            f"{TOPICS} --describe --if-exists",
            "--topic or --topic-id is required to describe a topic",
        ),
        (
            f"{TOPICS} --describe --unavailable-partitions --topics-with-overrides",
            'Option "[unavailable-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (f"{TOPICS} --alter --topic t --config a=b", "the kafka-configs tool can be used"),
        (
            f"{TOPICS} --alter --topic t --partitions 2 --replication-factor 2",
            'Option "[replication-factor]" can\'t be used with option "[alter]"',
        ),
        ("kavka.cli.commands.consumer_groups --list", 'Missing required argument "[bootstrap-server]"'),
        (f"{GROUPS} --describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        (
            f"{GROUPS} --describe --group g --members --state",
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (f"{GROUPS} --delete --group g --dry-run", 'Option "[dry-run]" can\'t be used with option "[delete]"'),
        (f"{GROUPS} --list --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        (
            f"{GROUPS} --reset-offsets --group g --topic t --to-earliest --to-latest",
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (
            f"{GROUPS} --reset-offsets --group g --topic t --to-earliest --execute --dry-run",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (f"{GROUPS} --delete-offsets --group g", "takes the following options: [topic], [group]"),
        (f"{GROUPS} --delete --group g --topic t", "does not support topic-specific offset deletion"),
        (f"{CONFIGS} --describe", "At least one entity type must be specified"),
        (f"{CONFIGS} --describe --entity-type foo", "Invalid entity type foo, the entity type must be one of"),
        (
            f"{CONFIGS} --describe --entity-type brokers --entity-name x",
            "The entity name for brokers must be a valid integer broker id, but it is: x",
        ),
        (
            f"{CONFIGS} --describe --topic t --entity-name u",
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags",
        ),
        (
            f"{CONFIGS} --describe --topic t --broker-defaults",
            "Only 'users' and 'clients' entity types may be specified together",
        ),
        (
            f"{CONFIGS} --describe --entity-type topics --entity-name t --entity-name u",
            "More entity names specified than entity types",
        ),
        (
            f"{CONFIGS} --alter --entity-type brokers --entity-name 0 --entity-default --add-config a=b",
            "More entity names specified than entity types",
        ),
        (
            "kavka.cli.commands.configs --zookeeper a:1 --describe --topic t",
            "--zookeeper: without a broker this command changes the SCRAM credentials"),
        (
            f"{CONFIGS} --describe --broker 2147483648",
            "The entity name for brokers must be a valid integer broker id, but it is: 2147483648",
        ),
        (f"{CONFIGS} --alter --topic t", "At least one of --add-config, --add-config-file, or --delete-config"),
        (
            f"{CONFIGS} --alter --entity-type topics --add-config a=b",
            "An entity name must be specified with --alter of topics",
        ),
        (
            f"{CONFIGS} --describe --entity-type topics --entity-default",
            "--entity-default must not be specified with --describe of topics",
        ),
        (f"{OFFSETS} --time soon", "Error occurred: Malformed time argument soon."),
        (f"{OFFSETS} --topic t --partitions 1-2", "expects a comma separated list of numeric partition ids"),
        (f"{OFFSETS} --topic t --topic-partitions t:0", "--topic-partitions cannot be used with"),
        ("kavka.cli.commands.delete_records --bootstrap-server a:1", 'Missing required argument "[offset-json-file]"'),
        ("kavka.cli.commands.log_dirs --bootstrap-server a:1", 'Missing required argument "[describe]"'),
        ("kavka.cli.commands.broker_api_versions --version=1 --x", "x is not a recognized option"),
        (f"{REASSIGN} --list --verify", "exactly one action: --generate, --execute, --verify, --cancel, --list"),
        (f"{REASSIGN} --generate", 'Missing required argument "[topics-to-move-json-file]"'),
        (
            f"{REASSIGN} --cancel --reassignment-json-file f --timeout x",
            "Cannot parse argument 'x' of option timeout",
        ),
        (f"{REASSIGN} --list --throttle 1", 'Option "[throttle]" can\'t be used with action "[list]"'),
        ("kavka.cli.commands.reassign_partitions --list", "Please specify --bootstrap-server"),
        (f"{ELECT} --topic t", "Missing required option(s): election-type"),
        (f"{ELECT} --election-type best --topic t", "Cannot parse argument 'best' of option election-type"),
        (f"{ELECT} --election-type UNCLEAN --topic t", "Missing required option(s): partition"),
        (f"{ELECT} --election-type unclean --command-config f", "command-config is not a recognized option"),
        ("kavka.cli.commands.preferred_replica_election --bootstrap-server a:1 --zookeeper b:1", "One and only one of"),
        (
            "kavka.cli.commands.preferred_replica_election --zookeeper a:1 --admin.config f",
            'Option "[admin.config]" can\'t be used with option "[zookeeper]"',
        ),
        ("kavka.cli.commands.preferred_replica_election --zookeeper a:b", "zookeeper.connect must be host:port"),
        ("kavka.cli.commands.replica_verification --topics-include t", 'Missing required argument "[broker-list]"'),
        ("kavka.cli.commands.replica_verification --broker-list a:1 --topics-include [", "[ is an invalid regex."),
        ("kavka.cli.commands.cluster unregister -b a:1 --id x", "could not convert 'x' to Integer"),
        ("kavka.cli.commands.cluster cluster-id", "--bootstrap-server/-b"),
        (f"{OFFSETS} --time {2**63}", f"Error occurred: Malformed time argument {2**63}."),
        (f"{OFFSETS} --topic t --partitions 1_0", "expects a comma separated list of numeric partition ids"),
        (
            f"kavka.cli.commands.console_consumer --bootstrap-server a:1 --topic t --partition 0 --offset {2**63}",
            f"The provided offset value '{2**63}' is incorrect.",
        ),
        (
            "kavka.cli.commands.console_consumer --bootstrap-server a:1 --include a[",
            "PatternSyntaxException: Unclosed character class near index 1",
        ),
        (
            "kavka.cli.commands.console_consumer --bootstrap-server a:1 --topic t --property key.deserializer=Nope",
            "Unable to instantiate a deserializer from Nope",
        ),
        (
            "kavka.cli.commands.console_producer --bootstrap-server a:1 --topic t --max-partition-memory-bytes 1_0",
            "Cannot parse argument '1_0' of option max-partition-memory-bytes",
        ),
        (
            "kavka.cli.commands.features --bootstrap-server a:1 upgrade --feature f=1 --feature f=2",
            "Feature f was specified more than once.",
        ),
        (
            "kavka.cli.commands.features --bootstrap-server a:1 disable --feature f --feature f",
            "Feature f was specified more"),
        *(
            (f"kavka.cli.commands.{command}", f'Option "[{one}]" can\'t be used with option "[{other}]"')
            for command, one, other in [
                ("console_consumer --bootstrap-server a:1 --include t --whitelist u", "whitelist", "include"),
                (
                    "console_consumer --bootstrap-server a:1 --topic t --consumer.config f --command-config g",
                    *("consumer.config", "command-config"),
                ),
                (
                    "console_producer --bootstrap-server a:1 --topic t --producer.config f --command-config g",
                    *("producer.config", "command-config"),
                ),
                (
                    "consumer_perf_test --bootstrap-server a:1 --topic t --messages 1 --num-records 2",
                    *("messages", "num-records"),
                ),
                (
                    "consumer_perf_test --bootstrap-server a:1 --topic t --messages 1 --consumer.config f "
                    "--command-config g",
                    *("consumer.config", "command-config"),
                ),
                (
                    "replica_verification --broker-list a:1 --topics-include t --topic-white-list u",
                    *("topic-white-list", "topics-include"),
                ),
            ]
        ),
        (f"{PRODUCING} --record-size 1_0", "argument --record-size: could not convert '1_0' to a number"),
        (f"{PRODUCING} --record-size 99999999999", "--record-size should be at most 268435456."),
        (f"{PRODUCING} --payload-file f --payload-delimiter \\x", "--payload-delimiter '\\\\x' parts nothing."),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_end_with_a_sentence_and_1(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(command) == 1
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "command",
    [
        f"{TOPICS} --list",
        f"{GROUPS} --list",
        f"{CONFIGS} --describe --topic t",
        f"{CONFIGS} --alter --topic t --add-config a=b --force",
        f"{OFFSETS} --topic t",
        "kavka.cli.commands.log_dirs --bootstrap-server 127.0.0.1:1 --describe",
        "kavka.cli.commands.broker_api_versions --bootstrap-server 127.0.0.1:1",
        f"{REASSIGN} --list",
        f"{ELECT} --election-type preferred --all-topic-partitions",
        "kavka.cli.commands.cluster cluster-id --bootstrap-server 127.0.0.1:1",
        "kavka.cli.commands.replica_verification --broker-list 127.0.0.1:1",
    ],
)
def test_an_unreachable_broker_is_named_in_one_line(
    command: str, not_a_broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(command.replace("127.0.0.1:1", not_a_broker)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith(f"cannot reach any of bootstrap.servers [{not_a_broker}]: ")


@pytest.mark.parametrize("option", ["partitions", "replication-factor"])
def test_a_number_of_a_new_topic_is_looked_at_before_any_broker_is_asked(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(f"{TOPICS} --create --topic t --{option} 2147483648") == 1
    captured = capsys.readouterr()
    sentence = f"Cannot parse argument '2147483648' of option {option}"
    assert captured.out == f"Error while executing topic command : {sentence}\n"
    assert f"joptsimple.OptionArgumentConversionException: {sentence}" in captured.err


@pytest.mark.parametrize("action", ["list", "describe", "create", "alter --partitions 2", "delete"])
def test_a_setting_to_delete_of_a_topic_is_warned_of_with_every_action(
    action: str, not_a_broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"{TOPICS} --{action} --topic t --delete-config retention.ms"
    assert _run(command.replace("127.0.0.1:1", not_a_broker)) == 1
    warning, unreachable = capsys.readouterr().err.splitlines()
    assert warning.startswith("delete-config option is no longer supported")
    assert unreachable.startswith("cannot reach any of bootstrap.servers")


def test_a_topic_id_stands_above_a_topic(
    not_a_broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"{TOPICS} --describe --if-exists --topic t --topic-id AAAAAAAAAAAAAAAAAAAABQ"
    assert _run(command.replace("127.0.0.1:1", not_a_broker)) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("Only topic id will be used when both")
    assert captured.err.startswith("cannot reach any of bootstrap.servers")


def test_the_brokers_of_get_offsets_may_be_called_as_in_older_releases(
    not_a_broker: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(f"kavka.cli.commands.get_offsets --broker-list {not_a_broker}") == 1
    assert f"cannot reach any of bootstrap.servers [{not_a_broker}]: " in capsys.readouterr().err


def test_a_wrong_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("kavka.cli.commands.topics --bootstrap-server nowhere --list") == 1
    assert "'nowhere' is not host:port" in capsys.readouterr().err


def test_a_missing_command_config_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(f"{TOPICS} --list --command-config {tmp_path}/no.properties") == 1
    assert f"cannot read {tmp_path}/no.properties: No such file" in capsys.readouterr().err


def test_settings_of_command_config_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("request.timeout.ms=soon\n")
    assert _run(f"{TOPICS} --list --command-config {path}") == 1
    assert "request.timeout.ms" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["soon", "0", "nan", "-1", "86400"])
def test_a_wrong_duration_of_the_demo_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _run(f"kavka.cli.commands.demo --duration={text}")
    assert f"'{text}' is no time between 0 and 86400 seconds" in capsys.readouterr().err
