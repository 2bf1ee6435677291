"""Access rules, quotas and SCRAM credentials where none are configured: Kafka's scripts against both brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kavka.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, wait_until_all_know_all
from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_DESCRIBE = ("kafka-configs", "--describe", "--entity-type")
_ALICE = ("users", "--entity-name", "alice")
_RULE = ("--force", "--allow-principal", "User:a", "--topic", "t", "--operation", "read")
SAME = (
    ("kafka-acls", "--list"),
    ("kafka-acls", "--add", *_RULE),
    ("kafka-acls", "--remove", *_RULE),
    (*_DESCRIBE, "users"),
    (*_DESCRIBE, "clients"),
    (*_DESCRIBE, "ips"),
    (*_DESCRIBE, *_ALICE),
    (*_DESCRIBE, *_ALICE, "--entity-type", "clients", "--entity-name", "c"),
    (*_DESCRIBE, "users", "--entity-default"),
)
"""Commands that both brokers answer alike."""


@pytest.fixture(scope="module")
def on_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of Apache Kafka 3.9 in ZooKeeper mode."""
    directory = tmp_path_factory.mktemp("apache-3.9")
    with ApacheKafka("3.9").run_broker(directory, mode="zookeeper") as broker:
        wait_until_all_know_all([broker.bootstrap])
        yield broker


@pytest.mark.parametrize(
    "kafka_tools", ["3.9", pytest.param("4.1", marks=pytest.mark.long)], indirect=True
)
def test_scripts_find_nothing_configured(
    on_zookeeper: Broker, kavka_broker: Broker, kafka_tools: ApacheKafka
) -> None:
    def outcome(broker: Broker, tool: str, *arguments: str) -> tuple[int, str, str]:
        done = kafka_tools.tool(tool, "--bootstrap-server", broker.bootstrap, *arguments)
        return done.code, done.out, done.err.replace(broker.bootstrap, "AT")

    for command in SAME:
        assert outcome(kavka_broker, *command) == outcome(on_zookeeper, *command), command


def _component(kind: str, match: str | None = None) -> DescribeClientQuotasRequestComponent:
    match_type = 2 if match is None else 0
    return DescribeClientQuotasRequestComponent(
        entity_type=kind, match_type=match_type, match=match
    )


def _quotas(*components: DescribeClientQuotasRequestComponent) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(components=list(components), strict=True)


def _users(*names: str) -> DescribeUserScramCredentialsRequest:
    users = [DescribeUserScramCredentialsRequestUserName(name=name) for name in names]
    return DescribeUserScramCredentialsRequest(users=users)


_RULE_OF_A = CreateAclsRequestCreation(
    resource_type=2,
    resource_name="t",
    principal="User:a",
    host="*",
    operation=3,
    permission_type=3,
)
_ALL_OF_T = DeleteAclsRequestFilter(
    resource_type_filter=2, resource_name_filter="t", operation=1, permission_type=1
)
QUESTIONS: tuple[Any, ...] = (
    DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
    CreateAclsRequest(creations=[]),
    CreateAclsRequest(creations=[_RULE_OF_A] * 2),
    DeleteAclsRequest(filters=[_ALL_OF_T] * 2),
    _quotas(),
    _quotas(_component("user"), _component("client-id", "c")),
    _quotas(_component("ip", "no address")),
    _quotas(_component("user"), _component("user")),
    _quotas(_component("user"), _component("ip")),
    _quotas(_component("planet")),
    _quotas(_component("")),
    DescribeUserScramCredentialsRequest(users=None),
    _users(),
    _users("alice", "bob", "alice", ""),
)


def test_responses_are_those_of_apache_kafka_on_zookeeper(
    on_zookeeper: Broker, kavka_broker: Broker
) -> None:
    for question in QUESTIONS:
        expected = ask(on_zookeeper.bootstrap, question)
        assert ask(kavka_broker.bootstrap, question) == expected, question
