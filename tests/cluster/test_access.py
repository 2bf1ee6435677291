"""Access control of several brokers: each obeys the ACLs that another has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.requests.session import Principal
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from support.access import SETTINGS, acl, creation
from support.access_requests import DENIALS, access_requests, errors_in

Run = Callable[..., None]
T = TopicPartition("t", 0)
_OF_BROKERS = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)


async def connected_as(cluster: Any, number: int, user: str) -> Any:
    peer = await cluster.connect(number)
    state = list(cluster.brokers[number].dispatcher.connections.values())[-1]
    state.session.principal = Principal("User", user)
    return peer


async def create_acls(cluster: Any, number: int, *texts: str) -> None:
    request = CreateAclsRequest(creations=[creation(acl(text)) for text in texts])
    assert not errors_in(await cluster.send(number, request))


def count(cluster: Any, number: int) -> int:
    found: int = cluster.brokers[number].security.access_control.acls.rules.count
    return found


def test_acls_are_obeyed_by_all_brokers_and_after_a_lost_session(run: Run) -> None:
    async def story(cluster: Any) -> None:
        await create_acls(cluster, 1, "User:alice Describe Group:g", "User:alice Read Topic:p*")
        await cluster.until(lambda: count(cluster, 2) == 2)
        alice = await connected_as(cluster, 2, "alice")
        request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
        found = [row.error_code for row in (await alice.send(request, 4)).coordinators]
        assert found[0] != ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert found[1] == ErrorCode.GROUP_AUTHORIZATION_FAILED
        cluster.znode_server.expire(cluster.sessions[2])
        everything = DeleteAclsRequestFilter(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
        await cluster.send(1, DeleteAclsRequest(filters=[everything]))
        await cluster.until(lambda: count(cluster, 2) == 0)

    run(story, brokers=2, **SETTINGS)


def test_changes_of_one_pattern_by_two_brokers_at_once_are_all_kept(run: Run) -> None:
    async def story(cluster: Any) -> None:
        async def create(number: int, user: int) -> None:
            await create_acls(cluster, number, f"User:{number}-{user} Read Topic:t")

        await asyncio.gather(*(create(1 + user % 2, user) for user in range(20)))
        for number in (1, 2):
            await cluster.until(lambda n=number: count(cluster, n) == 20)

    run(story, brokers=2, **SETTINGS)


def test_what_brokers_send_needs_cluster_action(run: Run) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controller
        await create_acls(cluster, controller, "User:other ClusterAction Cluster:kafka-cluster")
        other = await connected_as(cluster, controller, "other")
        client = await connected_as(cluster, controller, "client")
        for key in _OF_BROKERS:
            (request,) = access_requests(key, 1, bytes(16)) or [None]
            version = 1 if key is ApiKey.CONTROLLED_SHUTDOWN else None
            refused = errors_in(await client.send(request, version))
            assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in refused, key
            assert not DENIALS & set(errors_in(await other.send(request, version))), key

    run(story, brokers=2, **SETTINGS)


@pytest.mark.slow
def test_a_follower_without_cluster_action_copies_nothing(run: Run) -> None:
    """Brokers of a PLAINTEXT listener are ANONYMOUS: their right is taken away, and given back."""

    async def story(cluster: Any) -> None:
        await cluster.create("t", [1, 2])
        deny = "deny User:ANONYMOUS ClusterAction Cluster:kafka-cluster"
        await create_acls(cluster, 1, deny, "User:ANONYMOUS All Cluster:kafka-cluster")
        await cluster.until(lambda: count(cluster, 2) == 2)
        response = await cluster.produce(T, b"a", acks=1)
        assert response.error_code == 0
        await cluster.until(lambda: cluster.in_sync(T) == {1}, "the follower is out of sync")
        chosen = DeleteAclsRequestFilter(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=2
        )
        await cluster.send(1, DeleteAclsRequest(filters=[chosen]))
        await cluster.until(lambda: cluster.in_sync(T) == {1, 2}, "the follower is in sync again")

    settings = {**SETTINGS, "super__users": "", "allow__everyone__if__no__acl__found": "true"}
    run(story, brokers=2, **settings, replica__lag__time__max__ms="500")
