"""ACLs in the registry: their requests, znodes and notifications, as Apache Kafka's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.requests.session import Session
from kavka.broker.security.acl_store import UnreadableAcls
from kavka.broker.security.authorizer import AclAuthorizer
from kavka.core.access.entries import Principal
from kavka.core.access.names import AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.settings.declaration import InvalidSetting
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.describe_acls import DescribeAclsRequest
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.access import SETTINGS, acl, connected_as, create_acls, creation
from support.one_broker import Run, Served
from support.waiting import until

_ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
_READ, _WRITE, _DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


async def described(served: Served, **chosen: Any) -> list[tuple[str, int, str, int]]:
    response = await served.send(DescribeAclsRequest(**{**_ANY, **chosen}))
    assert response.error_code == 0, response.error_message
    return [
        (resource.resource_name, resource.pattern_type, entry.principal, entry.operation)
        for resource in response.resources
        for entry in resource.acls
    ]


async def deleted(served: Served, *filters: dict[str, Any]) -> list[list[tuple[str, str]]]:
    asked = [DeleteAclsRequestFilter(**{**_ANY, **each}) for each in filters]
    response = await served.send(DeleteAclsRequest(filters=asked))
    assert all(result.error_code == 0 for result in response.filter_results)
    return [
        [(row.resource_name, row.principal) for row in result.matching_acls]
        for result in response.filter_results
    ]


def test_acls_are_created_described_and_deleted(run: Run) -> None:
    async def story(served: Served) -> None:
        texts = ["User:a Read Topic:t", "User:b Write Topic:t", "User:a Read Topic:pre*"]
        assert await create_acls(served, *texts, texts[0]) == [0] * 4
        assert await described(served) == [
            ("t", 3, "User:a", _READ),
            ("t", 3, "User:b", _WRITE),
            ("pre", 4, "User:a", _READ),
        ]
        assert await described(
            served, resource_type_filter=2, resource_name_filter="prefix", pattern_type_filter=2
        ) == [("pre", 4, "User:a", _READ)]
        assert await described(served, principal_filter="User:b") == [("t", 3, "User:b", _WRITE)]
        # An ACL that two filters choose is removed for the first.
        of_a = {"principal_filter": "User:a"}
        literal = {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3}
        first, second = await deleted(served, of_a, literal)
        assert sorted(first) == [("pre", "User:a"), ("t", "User:a")]
        assert second == [("t", "User:b")]
        assert await described(served) == []

    run(story, **SETTINGS)


def test_acls_that_cannot_be_are_refused_one_by_one(run: Run) -> None:
    async def story(served: Served) -> None:
        good = creation(acl("User:a Read Topic:t"))
        wrong = [creation(acl("User:a Read Topic:t")) for _ in range(6)]
        wrong[0].resource_name = ""
        wrong[1].resource_type = 4  # a cluster of another name
        wrong[2].resource_name = "a/b"
        wrong[3].principal = "alice"
        wrong[4].operation = 99
        wrong[5].resource_pattern_type = 2
        results = (await served.send(CreateAclsRequest(creations=[*wrong, good]))).results
        assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST] * 6 + [0]
        assert [r.error_message for r in results] == [
            "Invalid empty resource name",
            "The only valid name for the CLUSTER resource is kafka-cluster",
            "ACL binding contains invalid resource name: a/b",
            "expected a string in format principalType:principalName but got alice",
            "ACL binding contains unknown elements",
            "patternType must not be MATCH",
            None,
        ]
        response = await served.send(DescribeAclsRequest(**{**_ANY, "operation": 77}))
        assert response.error_code == ErrorCode.INVALID_REQUEST

    run(story, **SETTINGS)


def test_znodes_and_notifications_are_those_of_apache_kafka(run: Run) -> None:
    async def story(served: Served) -> None:
        registry = served.broker.registry
        await create_acls(
            served, "User:a@10.0.0.1 DescribeConfigs TransactionalId:x", "deny User:* All Topic:p*"
        )
        data, _stat = await registry.get("/kafka-acl/TransactionalId/x")
        entry = {"principal": "User:a", "permissionType": "Allow", "host": "10.0.0.1"}
        entry["operation"] = "DescribeConfigs"
        assert json.loads(data) == {"version": 1, "acls": [entry]}
        data, _stat = await registry.get("/kafka-acl-extended/prefixed/Topic/p")
        assert json.loads(data)["acls"][0]["permissionType"] == "Deny"
        (name,) = await registry.children("/kafka-acl-changes")
        assert name == "acl_changes_0000000000"
        data, _stat = await registry.get(f"/kafka-acl-changes/{name}")
        assert data == b"TRANSACTIONAL_ID:x"
        (name,) = await registry.children("/kafka-acl-extended-changes")
        data, _stat = await registry.get(f"/kafka-acl-extended-changes/{name}")
        assert json.loads(data) == {
            "version": 1,
            "resourceType": "TOPIC",
            "name": "p",
            "patternType": "PREFIXED",
        }
        await deleted(served, {})
        assert await registry.children("/kafka-acl/TransactionalId") == []

    run(story, **SETTINGS)


def test_acls_are_in_force_after_a_restart(run: Run) -> None:
    async def before(served: Served) -> None:
        await served.topic("t")
        await create_acls(served, "User:alice Read Topic:t")

    async def after(served: Served) -> None:
        alice, bob = [await connected_as(served, name) for name in ("alice", "bob")]
        assert (await alice.fetch("t")).error_code == 0
        assert (await bob.fetch("t")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(before, **SETTINGS)
    run(after, **SETTINGS)


def test_a_change_by_another_broker_is_followed(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        registry = served.broker.registry
        alice = await connected_as(served, "alice")
        assert (await alice.fetch("t")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        row = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read"}
        node = json.dumps({"version": 1, "acls": [{**row, "host": "*"}]}).encode()
        await registry.create("/kafka-acl/Topic/t", node)
        rules = served.broker.security.access_control.acls.rules
        await registry.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        await until(lambda: rules.count == 1)
        assert (await alice.fetch("t")).error_code == 0
        # What is not understood is not followed: the last that was stays in force.
        await registry.set("/kafka-acl/Topic/t", b"{}")
        await registry.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        await registry.delete("/kafka-acl/Topic/t")
        await registry.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        await until(lambda: rules.count == 0)
        assert (await alice.fetch("t")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(story, **SETTINGS)


def test_all_acls_are_read_again_in_another_session(run: Run) -> None:
    async def story(served: Served) -> None:
        registry = served.broker.registry
        row = {"principal": "User:a", "permissionType": "Deny", "operation": "All", "host": "*"}
        node = json.dumps({"version": 1, "acls": [row]}).encode()
        await registry.create("/kafka-acl/Group/g", node)  # its notification came and went
        served.broker.security.access_control.session_renewed()
        await until(lambda: served.broker.security.access_control.acls.rules.count == 1)

    run(story, **SETTINGS)


def test_a_broker_that_cannot_read_an_acl_does_not_start(run: Run) -> None:
    async def spoil(served: Served) -> None:
        await served.broker.registry.create("/kafka-acl/Topic/t", b"no json")

    async def nothing(served: Served) -> None:
        raise AssertionError("it has started")

    run(spoil, **SETTINGS)
    with pytest.raises(UnreadableAcls, match="/kafka-acl/Topic/t cannot be read"):
        run(nothing, **SETTINGS)


def test_hosts_denials_and_the_default_are_obeyed(run: Run) -> None:
    async def story(served: Served) -> None:
        for name in ("open", "shut", "near", "far"):
            await served.topic(name)
        await create_acls(
            served,
            "deny User:alice Read Topic:shut",
            "User:* All Topic:shut",
            "User:alice@127.0.0.1 Read Topic:near",
            "User:alice@10.9.9.9 Read Topic:far",
        )
        alice = await connected_as(served, "alice")
        codes = {n: (await alice.fetch(n)).error_code for n in ("open", "shut", "near", "far")}
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert codes == {"open": 0, "shut": refused, "near": 0, "far": refused}

    run(story, **SETTINGS, allow__everyone__if__no__acl__found="true")


def test_what_a_connection_was_allowed_ends_with_the_acl_and_with_its_principal(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await create_acls(served, "User:alice Write Topic:t", "User:bob Describe Topic:t")
        client = await connected_as(served, "alice")
        state = list(served.broker.dispatcher.connections.values())[-1]

        async def code() -> int:
            return int((await client.produce("t", b"1")).error_code)

        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [await code(), await code()] == [0, 0]
        state.session.principal = Principal("User", "bob")
        assert [await code(), await code()] == [refused, refused]
        state.session.principal = Principal("User", "alice")
        assert [await code(), await code()] == [0, 0]
        await deleted(served, {"principal_filter": "User:alice"})
        assert [await code(), await code()] == [refused, refused]
        await create_acls(served, "User:alice Write Topic:t")
        assert await code() == 0

    run(story, **SETTINGS)


def test_a_fetch_that_waits_is_refused_when_its_acl_is_taken_away(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await create_acls(served, "User:alice Read Topic:t")
        alice = await connected_as(served, "alice")
        waiting = asyncio.ensure_future(alice.fetch("t", max_wait_ms=60_000))
        await served.until_a_fetch_waits()
        await deleted(served, {"principal_filter": "User:alice"})
        await served.produce("t", b"not for alice")
        found = await waiting
        assert found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not found.records

    run(story, **SETTINGS)


def test_authorized_operations_are_those_of_the_client(run: Run) -> None:
    def bits(*operations: AclOperation) -> int:
        return sum(1 << operation for operation in operations)

    async def story(served: Served) -> None:
        for name in ("t", "u"):
            await served.topic(name)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        await create_acls(
            served,
            "User:alice Read Topic:t",
            "User:alice Describe Topic:u",
            "User:alice Read Group:g",
        )
        alice = await connected_as(served, "alice")
        named = [MetadataRequestTopic(name="t")]
        for topics in (named, None):
            request = MetadataRequest(topics=topics, include_topic_authorized_operations=True)
            response = await alice.send(request, 9)
            found = {topic.name: topic.topic_authorized_operations for topic in response.topics}
            assert found["t"] == bits(_READ, _DESCRIBE)
            assert topics is not None or found["u"] == bits(_DESCRIBE)
        request = MetadataRequest(topics=named, include_cluster_authorized_operations=True)
        assert (await alice.send(request, 9)).cluster_authorized_operations == 0
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        assert (await alice.send(cluster)).cluster_authorized_operations == 0
        groups = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
        one, other = (await alice.send(groups)).groups
        assert one.authorized_operations == bits(_READ, _DESCRIBE)
        assert other.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await create_acls(served, "User:alice Alter Cluster:kafka-cluster")
        expected = bits(AclOperation.ALTER, _DESCRIBE)
        assert (await alice.send(cluster)).cluster_authorized_operations == expected

    run(story, **SETTINGS)


def test_metadata_answers_alike_whether_an_unauthorized_topic_exists(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("exists")
        alice = await connected_as(served, "alice")
        for version in (1, 9, 12):
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=n) for n in ("exists", "absent")]
            )
            exists, absent = (await alice.send(request, version)).topics
            exists.name = absent.name = ""
            assert exists == absent

    run(story, **SETTINGS)


@pytest.mark.parametrize(
    "name", ["org.apache.kafka.metadata.authorizer.StandardAuthorizer", "no_such_module:Class"]
)
def test_other_authorizers_keep_the_broker_from_starting(run: Run, name: str) -> None:
    async def nothing(served: Served) -> None:
        raise AssertionError("it has started")

    with pytest.raises(InvalidSetting, match=r"authorizer\.class\.name"):
        run(nothing, authorizer__class__name=name)


def test_super_users_are_checked_at_the_start(run: Run) -> None:
    async def nothing(served: Served) -> None:
        raise AssertionError("it has started")

    with pytest.raises(InvalidSetting, match="principalType:principalName but got admin"):
        run(nothing, **{**SETTINGS, "super__users": "User:a;admin"})


@pytest.mark.parametrize(
    ("users", "is_warned_of"),
    [("User:a,User:b", True), ("User:CN=a,O=Acme;User:b", False)],
)
def test_a_comma_between_super_users_is_warned_of(
    caplog: pytest.LogCaptureFixture, users: str, is_warned_of: bool
) -> None:
    AclAuthorizer(BrokerConfig({"super.users": users}))
    said = f"comma in super.users, whose principals are separated by ; value={users}"
    assert [record.getMessage() for record in caplog.records] == [said] * is_warned_of


def test_a_session_remembers_what_it_was_asked_about_any_topic_first() -> None:
    authorizer = AclAuthorizer(BrokerConfig({}))
    session = Session("CLIENTS", "SASL_SSL", "10.0.0.1", Principal("User", "alice"))
    assert not authorizer.allows_any(session, AclOperation.WRITE, AclResourceType.TOPIC)
    assert session.decisions == {(AclOperation.WRITE, AclResourceType.TOPIC, None): False}


def test_super_users_without_an_authorizer_are_warned_of(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing(served: Served) -> None:
        """It has started."""

    run(nothing, super__users="User:admin")
    said = "super.users without authorizer.class.name: every client may do everything"
    assert said in [record.getMessage() for record in caplog.records]


_OWN = """
class OfTheHouse:
    def __init__(self, settings):
        self.prefix = settings["kavka.log.level"].lower()
        self.calls = []

    async def start(self):
        self.is_started = True

    def allows(self, principal, host, operation, resource_type, name):
        assert self.is_started
        if name == "broken":
            raise ValueError(name)
        return (principal, resource_type, operation) != ("User:alice", "TOPIC", "WRITE")
"""


def test_an_authorizer_of_ones_own_decides(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "house_rules.py").write_text(_OWN)
    monkeypatch.syspath_prepend(tmp_path)

    async def story(served: Served) -> None:
        await served.topic("t")
        alice = await connected_as(served, "alice")
        assert (await alice.fetch("t")).error_code == 0
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (await alice.produce("t", b"a")).error_code == refused
        request = MetadataRequest(topics=[MetadataRequestTopic(name="broken")])
        assert (await served.send(request, 9)).topics[0].error_code == refused
        response = await served.send(DescribeAclsRequest(**_ANY))
        assert response.error_code == ErrorCode.SECURITY_DISABLED

    run(story, authorizer__class__name="house_rules:OfTheHouse", kavka__log__level="INFO")


def test_what_others_write_among_the_notifications_does_not_hide_later_ones(run: Run) -> None:
    async def story(served: Served) -> None:
        registry = served.broker.registry
        rules = served.broker.security.access_control.acls.rules
        row = {"principal": "User:a", "permissionType": "Deny", "operation": "All", "host": "*"}
        node = json.dumps({"version": 1, "acls": [row]}).encode()

        async def deny(topic: str) -> None:
            before = rules.count
            await registry.create(f"/kafka-acl/Topic/{topic}", node)
            notice = f"Topic:{topic}".encode()
            await registry.create("/kafka-acl-changes/acl_changes_", notice, sequence=True)
            await until(lambda: rules.count == before + 1)

        await registry.create("/kafka-acl-changes/zzz", b"Topic:t")
        await deny("t")
        await deny("u")
        await registry.create("/kafka-acl/Topic/deep", b"[" * 100_000)
        await registry.create("/kafka-acl-changes/acl_changes_", b"Topic:deep", sequence=True)
        await deny("v")

    run(story, **SETTINGS)
