"""ACLs by other people's clients against a broker with `AclAuthorizer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import run_kavka

pytestmark = [pytest.mark.compat]

_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "",
}
_DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of ours that decides by ACLs, and allows what has none."""
    directory: Path = tmp_path_factory.mktemp("guarded")
    with run_kavka(directory, _SETTINGS) as broker:
        yield broker


def _acl(name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    kind, literal = ResourceType.TOPIC, ResourcePatternType.LITERAL
    return AclBinding(kind, name, literal, "User:ANONYMOUS", "*", operation, permission)


def test_librdkafka_creates_describes_and_deletes_acls(guarded: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    kind, prefixed = ResourceType.GROUP, ResourcePatternType.PREFIXED
    wanted = [
        AclBinding(kind, "g", prefixed, "User:a", "*", operation, AclPermissionType.ALLOW)
        for operation in (AclOperation.READ, AclOperation.DELETE)
    ]
    for outcome in admin.create_acls(wanted).values():
        assert outcome.result(10) is None
    wrong = AclBinding(
        kind, "a/b", prefixed, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    (refused,) = admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException, match="invalid resource name"):
        refused.result(10)
    everything = AclBindingFilter(
        kind, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(everything).result(10)) == set(wanted)
    (deleted,) = admin.delete_acls([everything]).values()
    assert set(deleted.result(10)) == set(wanted)
    assert admin.describe_acls(everything).result(10) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_creates_describes_and_deletes_acls(guarded: Broker) -> None:
    from kafka import admin as kafka_python

    admin = kafka_python.KafkaAdminClient(bootstrap_servers=guarded.bootstrap)
    try:
        topic = kafka_python.ResourceType.TOPIC
        acl = kafka_python.ACL(
            "User:b",
            "*",
            kafka_python.ACLOperation.WRITE,
            kafka_python.ACLPermissionType.ALLOW,
            kafka_python.ResourcePattern(topic, "python"),
        )
        created = admin.create_acls([acl])
        assert (created["succeeded"], created["failed"]) == ([acl], [])
        chosen = kafka_python.ACLFilter(
            "User:b",
            "*",
            kafka_python.ACLOperation.ANY,
            kafka_python.ACLPermissionType.ANY,
            kafka_python.ResourcePatternFilter(
                topic, "python", kafka_python.ACLResourcePatternType.ANY
            ),
        )
        found, _error = admin.describe_acls(chosen)
        assert found == [acl]
        ((_filter, deleted, _failed),) = admin.delete_acls([chosen])
        assert deleted == [acl]
    finally:
        admin.close()


def test_librdkafka_is_denied_what_acls_deny(guarded: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    deny, allow = AclPermissionType.DENY, AclPermissionType.ALLOW
    wanted = [
        _acl("no-write", AclOperation.ALL, allow),
        _acl("no-write", AclOperation.WRITE, deny),
        _acl("no-read", AclOperation.ALL, allow),
        _acl("no-read", AclOperation.READ, deny),
        _acl("hidden", AclOperation.ALL, deny),
    ]
    for outcome in admin.create_acls(wanted).values():
        outcome.result(10)
    assert _produced(guarded, "no-write") == _DENIED
    assert _produced(guarded, "no-read") is None
    assert _produced(guarded, "hidden") == _DENIED
    assert _consumed(guarded, "no-read") == _DENIED
    listed = admin.list_topics(timeout=10).topics
    assert "no-read" in listed
    assert "hidden" not in listed


def _produced(broker: Broker, topic: str) -> int | None:
    """Return the error with which a record was delivered, if any."""
    reports: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 10_000})
    producer.produce(topic, b"v", on_delivery=lambda error, _message: reports.append(error))
    producer.flush(20)
    (error,) = reports
    return None if error is None else error.code()


def _consumed(broker: Broker, topic: str) -> int | None:
    """Return the error of the first message."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        return None if message.error() is None else message.error().code()
    finally:
        consumer.close()


_ADDED: Sequence[Sequence[str]] = (
    (
        "--add",
        "--allow-principal",
        "User:a",
        "--producer",
        "--topic",
        "T",
        "--transactional-id",
        "x",
    ),
    ("--add", "--allow-principal", "User:a", "--consumer", "--topic", "T", "--group", "g"),
    ("--add", "--allow-principal", "User:c", "--producer", "--idempotent", "--topic", "T2"),
    (
        *("--add", "--deny-principal", "User:b", "--deny-host", "10.0.0.1", "--operation", "Read"),
        *("--topic", "pre", "--resource-pattern-type", "prefixed"),
    ),
)
_LISTED: Sequence[Sequence[str]] = (
    ("--list", "--topic", "prefix", "--resource-pattern-type", "match"),
    ("--list", "--principal", "User:a"),
)
_REMOVED: Sequence[Sequence[str]] = (
    ("--remove", "--force", "--topic", "T", "--allow-principal", "User:a", "--operation", "Write"),
)


def test_our_command_prints_a_sample_of_what_kafka_acls_prints(tmp_path: Path) -> None:
    """The order of ACLs is that of a hash table in Kafka's, so lines are compared without it."""
    with run_kavka(tmp_path, {**_SETTINGS, "super.users": "User:ANONYMOUS"}) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        for arguments in _ADDED[:2]:
            our_tool("acls", *at, *arguments)
        _compare_commands(ApacheKafka("3.9"), at, (_ADDED[3], _LISTED[1]))


@pytest.mark.long
def test_our_command_prints_what_kafka_acls_prints(tmp_path: Path) -> None:
    with run_kavka(tmp_path, {**_SETTINGS, "super.users": "User:ANONYMOUS"}) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        _compare_commands(ApacheKafka("3.9"), at, (*_ADDED, *_LISTED))


def _compare_commands(
    apache: ApacheKafka, at: Sequence[str], commands: Sequence[Sequence[str]]
) -> None:
    """Compare what commands print, and what a removal prints, of ACLs for user a that were added before."""

    def both(arguments: Sequence[str]) -> None:
        ours = our_tool("acls", *at, *arguments)
        theirs = apache.check("kafka-acls", *at, *arguments)
        assert sorted(map(str.strip, ours.lines)) == sorted(map(str.strip, theirs.lines)), arguments

    for arguments in commands:
        both(arguments)
    for removed in _REMOVED:
        ours = our_tool("acls", *at, *removed)
        left = our_tool("acls", *at, "--list")
        for added in _ADDED[:2]:
            our_tool("acls", *at, *added)
        theirs = apache.check("kafka-acls", *at, *removed)
        assert (ours.out, left.out) == (theirs.out, our_tool("acls", *at, "--list").out), removed
        for added in _ADDED[:2]:
            our_tool("acls", *at, *added)
