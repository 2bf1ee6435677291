"""Every API, with every combination of its ACLs, against Apache Kafka 3.9 in ZooKeeper mode: the same denials.

A scenario is a user of its own with some ACLs. At Apache Kafka it authenticates by SASL/PLAIN; at our broker, which
runs in the test's process, its connection is given the principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.broker.requests.session import Principal
from kavka.broker.security.api_table import NEEDS, Need
from kavka.core.access.names import AclResourceType
from kavka.errors import ErrorCode
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.list_groups import ListGroupsRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.processes import free_port
from support.access import SETTINGS, acl, creation
from support.access_requests import DENIALS, access_requests, errors_in
from support.cluster import Cluster, run_in

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_NAMES = {
    AclResourceType.TOPIC: "t",
    AclResourceType.GROUP: "g",
    AclResourceType.CLUSTER: "kafka-cluster",
    AclResourceType.TRANSACTIONAL_ID: "x",
    AclResourceType.DELEGATION_TOKEN: "*",
    AclResourceType.USER: "User:another",
}
_MORE_NAMES = {
    ApiKey.METADATA: ("new-one",),
    ApiKey.CREATE_TOPICS: ("made", "made-old"),
    ApiKey.DELETE_TOPICS: ("nonexistent",),
    ApiKey.DELETE_GROUPS: ("nonexistent",),
}
"""Names in requests besides `t`, `g` and `x`."""


class Scenario(NamedTuple):
    """A user, and the ACLs that it has besides those of others."""

    user: str
    key: ApiKey
    acls: tuple[str, ...]


def rules(key: ApiKey, need: Need, user: str, *, form: str = "literal") -> list[str]:
    """Return ACLs that grant a need, or (`deny`) take it away."""
    names = (_NAMES[need.resource], *_MORE_NAMES.get(key, ()))
    if need.resource not in (AclResourceType.TOPIC, AclResourceType.GROUP):
        names = names[:1]
    who = f"User:{user}@10.9.9.9" if form == "elsewhere" else f"User:{user}"
    if form == "prefix" and need.resource != AclResourceType.CLUSTER:
        names = tuple(f"{name[0]}*" for name in names)
    if form == "wildcard" and need.resource != AclResourceType.CLUSTER:
        names = ("*",)
    deny = "deny " if form == "deny" else ""
    operation = "All" if form == "all" else need.operation.title
    return [f"{deny}{who} {operation} {need.resource.title}:{name}" for name in names]


def scenarios(keys: Sequence[ApiKey], *, whole: bool) -> list[Scenario]:
    """Return the combinations of ACLs of each API."""
    found: list[Scenario] = []

    def add(key: ApiKey, make: Any) -> None:
        user = f"u{len(found)}"
        found.append(Scenario(user, key, tuple(rule for some in make(user) for rule in some)))

    for key in keys:
        needs = NEEDS[key]
        add(key, lambda _user: [])
        for left in needs if len(needs) > 1 else ():
            others = [other for other in needs if other is not left]
            add(key, lambda user, k=key, n=others: [rules(k, one, user) for one in n])
        # The last one: what goes through may delete a group that others are about.
        add(key, lambda user, k=key, n=needs: [rules(k, one, user) for one in n])
        if not whole:
            continue
        for form in ("all", "prefix", "wildcard", "elsewhere"):
            add(
                key,
                lambda user, k=key, n=needs, f=form: [rules(k, one, user, form=f) for one in n],
            )
        for denied in needs:
            add(
                key,
                lambda user, k=key, n=needs, d=denied: [
                    *(rules(k, one, user) for one in n),
                    rules(k, d, user, form="deny"),
                ],
            )
    return found


class Apache(NamedTuple):
    """A broker of Apache Kafka with `AclAuthorizer`: the port of its administrator, and that of users."""

    admin_port: int
    port: int


_USERS = 1500
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """Run a broker that decides by ACLs, with users u0, u1 and so on, whose password is `p`."""
    at = Apache(free_port(), free_port())
    users = " ".join(f'user_u{number}="p"' for number in range(_USERS))
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{at.admin_port},SASL_PLAINTEXT://127.0.0.1:{at.port}",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_LOGIN} {users};",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }
    directory: Path = tmp_path_factory.mktemp("apache-acls")
    with ApacheKafka("3.9").run_broker(directory, mode="zookeeper", settings=settings):
        yield at


@asynccontextmanager
async def administering(apache: Apache) -> AsyncIterator[Peer]:
    """Connect to Apache Kafka as the super user, for the body of an `async with`."""
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", apache.admin_port)
    try:
        yield peer
    finally:
        peer.close()


async def authenticated(port: int, user: str) -> Peer:
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", port, client_id="test")
    assert (await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
    token = f"\0{user}\0p".encode()
    assert (await peer.send(SaslAuthenticateRequest(auth_bytes=token), 1)).error_code == 0
    return peer


async def ours(cluster: Cluster, user: str) -> Peer:
    peer = await cluster.connect(1)
    state = list(cluster.brokers[1].dispatcher.connections.values())[-1]
    state.session.principal = Principal("User", user)
    state.session.protocol = "SASL_PLAINTEXT"
    return peer


async def sent(admin: Peer, request: Any, version: int) -> Any:
    """Send a request until there is no error in its response, which this returns."""
    while errors_in(response := await admin.send(request, version)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # time: between two requests
    return response


async def prepared(admin: Peer) -> bytes:
    """Create the topic, the group and the coordinators; return the topic's id."""
    topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
    await admin.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    async with asyncio.timeout(60):
        for kind, key in enumerate(("g", "x")):
            request = FindCoordinatorRequest(key=key, key_type=kind)
            await sent(admin, request, 3)
        (commit,) = access_requests(ApiKey.OFFSET_COMMIT, 5, bytes(16))
        await sent(admin, commit, 5)
    asked = [MetadataRequestTopic(name="t")]
    topic_id: bytes = (await admin.send(MetadataRequest(topics=asked), 10)).topics[0].topic_id
    return topic_id


async def begin_again(admin: Peer) -> None:
    """Delete the ACLs and topics that an earlier test has created."""
    everything = DeleteAclsRequestFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    assert not errors_in(await admin.send(DeleteAclsRequest(filters=[everything]), 2))
    names = ("new-one", "made-old")
    await admin.send(DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000), 3)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    asked.allow_auto_topic_creation = False
    missing = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(names)
    async with asyncio.timeout(30):
        while errors_in(await admin.send(asked, 9)) != missing:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # time: between two requests


def versions(peer: Peer, key: ApiKey, *, whole: bool) -> list[int]:
    newest = peer.version_of(key)
    oldest = APIS[key].min_version
    return list(range(oldest, newest + 1)) if whole else [newest]


async def denials(peer: Peer, scenario: Scenario, asked: list[int], topic_id: bytes) -> list[Any]:
    """Return the denials of each request of an API, in their order, for each version."""
    found = []
    for version in asked:
        for request in access_requests(scenario.key, version, topic_id):
            try:
                response = await peer.send(request, version)
            except (OSError, TimeoutError) as error:
                raise AssertionError(f"{scenario} version {version}: {error}") from error
            errors = errors_in(response)
            found.append((version, sorted(e.name for e in errors if e in DENIALS)))
    return found


async def compared(
    cluster: Cluster, apache: Apache, kafka_admin: Peer, keys: Sequence[ApiKey], *, whole: bool
) -> None:
    """Send all requests of all scenarios to both, and compare."""
    our_admin = await cluster.peer(1)
    await begin_again(kafka_admin)
    kafka_id, our_id = await prepared(kafka_admin), await prepared(our_admin)
    different = []
    todo = scenarios(keys, whole=whole)
    assert len(todo) <= _USERS
    for scenario in todo:
        creations = [creation(acl(text)) for text in scenario.acls]
        for admin in (kafka_admin, our_admin):
            assert not errors_in(await admin.send(CreateAclsRequest(creations=creations), 2))
            if scenario.key is ApiKey.OFFSET_DELETE:
                await prepared(admin)  # the one before has deleted the group
        theirs, mine = await authenticated(apache.port, scenario.user), None
        try:
            mine = await ours(cluster, scenario.user)
            asked = versions(theirs, scenario.key, whole=whole)
            expected = await denials(theirs, scenario, asked, kafka_id)
            found = await denials(mine, scenario, asked, our_id)
            if expected != found:
                different.append(f"{scenario}\n  Apache {expected}\n  kavka  {found}")
        finally:
            theirs.close()
            if mine is not None:
                mine.close()
    assert not different, "\n".join(different)


def test_a_sample_of_apis_denies_as_apache_kafka(apache: Apache, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        async with administering(apache) as admin:
            await compared(cluster, apache, admin, sorted(SUPPORTED_APIS), whole=False)

    run_in(tmp_path)(story, brokers=1, **SETTINGS)


@pytest.mark.long
def test_all_apis_deny_as_apache_kafka_in_all_versions(apache: Apache, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        async with administering(apache) as admin:
            await compared(cluster, apache, admin, sorted(SUPPORTED_APIS), whole=True)

    run_in(tmp_path)(story, brokers=1, **SETTINGS)


# -- what is shown


_SHOWN = (
    ("Describe Topic:a", "Read Topic:ab", "Read Group:g"),
    ("All Topic:*", "Delete Group:*"),
    ("Describe Cluster:kafka-cluster",),
    ("Alter Cluster:kafka-cluster", "AlterConfigs Topic:a*"),
    ("Create Cluster:kafka-cluster", "Delete Topic:a"),
    (),
)


async def shown(peer: Peer, topic_ids: dict[str, bytes]) -> list[Any]:
    """Return what a client sees of topics, groups and the cluster, with what it may do with each."""
    everything = MetadataRequest(
        topics=None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    listed = await peer.send(everything, 10)
    found: list[Any] = [
        sorted(
            (t.name, t.topic_authorized_operations, len(t.partitions))
            for t in listed.topics
            if not t.is_internal
        ),
        listed.cluster_authorized_operations,
    ]
    by_id = [MetadataRequestTopic(name=None, topic_id=each) for each in topic_ids.values()]
    response = await peer.send(MetadataRequest(topics=by_id), 12)
    names = {each: name for name, each in topic_ids.items()}
    found.append(sorted((names[t.topic_id], t.name or "", t.error_code) for t in response.topics))
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    found.append((await peer.send(cluster, 0)).cluster_authorized_operations)
    groups = await peer.send(ListGroupsRequest(), 4)
    found.append(sorted(group.group_id for group in groups.groups))
    request = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    described = await peer.send(request, 5)
    found.append(
        sorted((g.group_id, g.error_code, g.authorized_operations) for g in described.groups)
    )
    new = [
        CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("a1", "zz")
    ]
    created = await peer.send(CreateTopicsRequest(topics=new, validate_only=True), 7)
    found.append(
        sorted(
            (t.name, t.error_code, t.topic_config_error_code, t.num_partitions, bool(t.configs))
            for t in created.topics
        )
    )
    return found


async def deleted_by_id(peer: Peer, topic_ids: dict[str, bytes]) -> list[Any]:
    """Try to delete topics by their ids; return the names in the response, and the errors."""
    asked = [DeleteTopicsRequestTopic(name=None, topic_id=each) for each in topic_ids.values()]
    response = await peer.send(DeleteTopicsRequest(topics=asked, timeout_ms=10_000), 6)
    names = {each: name for name, each in topic_ids.items()}
    return sorted((names[t.topic_id], t.name or "", t.error_code) for t in response.responses)


async def with_topics(admin: Peer) -> dict[str, bytes]:
    new = [
        CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("a", "ab", "b")
    ]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name) for topic in new])
    asked.allow_auto_topic_creation = False
    async with asyncio.timeout(30):
        # One that was deleted a moment ago may be there still.
        while True:
            response = await admin.send(CreateTopicsRequest(topics=new, timeout_ms=30_000), 7)
            assert {t.error_code for t in response.topics} <= {0, ErrorCode.TOPIC_ALREADY_EXISTS}
            listed = await admin.send(asked, 10)
            if not errors_in(listed):
                return {topic.name: topic.topic_id for topic in listed.topics}
            await asyncio.sleep(0.05)  # time: between two requests


async def compare_shown(cluster: Cluster, apache: Apache, kafka_admin: Peer) -> None:
    """Compare what users see, and what they may delete."""
    our_admin = await cluster.peer(1)
    await prepared(kafka_admin)
    await prepared(our_admin)
    for number, texts in enumerate(_SHOWN):
        user = f"u{_USERS - 1 - number}"
        creations = [creation(acl(f"User:{user} {text}")) for text in texts]
        ids = []
        for admin in (kafka_admin, our_admin):
            assert not errors_in(await admin.send(CreateAclsRequest(creations=creations), 2))
            ids.append(await with_topics(admin))
        theirs, mine = await authenticated(apache.port, user), await ours(cluster, user)
        try:
            expected, found = await shown(theirs, ids[0]), await shown(mine, ids[1])
            for each in (expected, found):
                each[0] = [row for row in each[0] if row[0] in ("a", "ab", "b")]
            assert found == expected, texts
            deleted = await deleted_by_id(theirs, ids[0])
            assert await deleted_by_id(mine, ids[1]) == deleted, texts
        finally:
            theirs.close()


def test_clients_are_shown_what_apache_kafka_shows_them(apache: Apache, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        async with administering(apache) as admin:
            await compare_shown(cluster, apache, admin)

    run_in(tmp_path)(story, brokers=1, **SETTINGS)
