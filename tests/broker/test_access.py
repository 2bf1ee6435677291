"""Each API needs what the table says: without one of its needs it is refused, with all of them it is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.broker.security import refused_requests
from kavka.broker.security.api_table import NEEDS, Need
from kavka.core.access.names import AclOperation, AclResourceType
from kavka.core.access.rules import allowed_by
from kavka.errors import ErrorCode
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from support.access import SETTINGS, connected_as, create_acls
from support.access_requests import DENIALS, access_requests, errors_in
from support.one_broker import Run, Served

# A broker with a registry of its own refuses them to everybody: its controller is in its process.
_OF_BROKERS = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
_NAMES = {
    AclResourceType.TOPIC: "*",
    AclResourceType.GROUP: "*",
    AclResourceType.CLUSTER: "kafka-cluster",
    AclResourceType.TRANSACTIONAL_ID: "x",
    AclResourceType.DELEGATION_TOKEN: "*",
    AclResourceType.USER: "User:another",
}


def acl_of(need: Need) -> str:
    return f"User:alice {need.operation.title} {need.resource.title}:{_NAMES[need.resource]}"


def is_implied(need: Need, others: list[Need]) -> bool:
    """Return whether what is needed otherwise is enough for a need."""
    return any(
        other.resource == need.resource and other.operation in allowed_by(need.operation)
        for other in others
    ) or any((other.operation, other.resource) == need.any_of for other in others)


def versions(key: ApiKey) -> list[int]:
    if key is ApiKey.DESCRIBE_LOG_DIRS:
        return [3, 4]  # older ones have no field for the error
    if key is ApiKey.CREATE_DELEGATION_TOKEN:
        return [3]  # older ones are of the client's own tokens
    return sorted({APIS[key].min_version, APIS[key].max_version, min(3, APIS[key].max_version)})


async def prepared(served: Served) -> bytes:
    await served.topic("t")
    await served.produce("t", b"a")
    for kind, key in enumerate(("g", "x")):
        await served.send(FindCoordinatorRequest(key=key, key_type=kind), 3)
    for request in access_requests(ApiKey.OFFSET_COMMIT, 5, bytes(16)):
        assert not errors_in(await served.send(request, 5))  # the group exists
    topic_id: bytes = served.broker.metadata.topics["t"].topic_id
    return topic_id


async def errors_of(client: Any, key: ApiKey, topic_id: bytes) -> list[set[ErrorCode]]:
    """Return the errors of all requests of an API, for each version."""
    found = []
    for version in versions(key):
        errors: set[ErrorCode] = set()
        for request in access_requests(key, version, topic_id):
            errors.update(errors_in(await client.send(request, version)))
        found.append(errors)
    return found


def test_each_api_has_its_row_and_requests() -> None:
    assert set(SUPPORTED_APIS) <= set(NEEDS)
    for key in SUPPORTED_APIS:
        for version in range(APIS[key].min_version, APIS[key].max_version + 1):
            assert access_requests(key, version, bytes(16)) or not NEEDS[key], (key, version)


async def judge(served: Served, key: ApiKey, topic_id: bytes) -> list[str]:
    """Send an API without any ACL, with all but one of its needs, and with all; return what is wrong."""
    wrong = []
    needs = NEEDS[key]
    refusals = {need.error for need in needs} - {ErrorCode.NONE}
    nothing = await connected_as(served, "nobody")
    for errors in await errors_of(nothing, key, topic_id):
        if refusals and not errors & refusals:
            wrong.append(f"{key.name} without any ACL: {errors}")
    for number, need in enumerate(needs):
        others = [other for other in needs if other is not need]
        if need.error and others and not is_implied(need, others):
            client = await granted(served, f"{key.name}-{number}", others)
            found = set().union(*await errors_of(client, key, topic_id)) & DENIALS
            if found != {need.error}:
                wrong.append(f"{key.name} without {acl_of(need)}: {found}")
    if key not in _OF_BROKERS:
        client = await granted(served, key.name, needs)
        for errors in await errors_of(client, key, topic_id):
            if errors & DENIALS:
                wrong.append(f"{key.name} with all: {errors}")
    return wrong


async def granted(served: Served, user: str, needs: Iterable[Need]) -> Any:
    """Connect as a user who has what is needed."""
    await create_acls(
        served, *(acl_of(need).replace("User:alice", f"User:{user}") for need in needs)
    )
    return await connected_as(served, user)


def test_each_api_needs_what_the_table_says(run: Run) -> None:
    async def story(served: Served) -> None:
        topic_id = await prepared(served)
        wrong = []
        for key in sorted(SUPPORTED_APIS):
            if NEEDS[key]:
                wrong += await judge(served, key, topic_id)
        assert wrong == []

    run(story, **SETTINGS)


def test_an_operation_that_is_enough_instead_is_enough(run: Run) -> None:
    async def story(served: Served) -> None:
        topic_id = await prepared(served)
        client = await connected_as(served, "alice")
        await create_acls(
            served, "User:alice Alter Cluster:kafka-cluster", "User:alice Write Topic:some-topic"
        )
        for key in (ApiKey.WRITE_TXN_MARKERS, ApiKey.INIT_PRODUCER_ID):
            request = access_requests(key, 1, topic_id)[0]
            assert not DENIALS & set(errors_in(await client.send(request, 1))), key

    run(story, **SETTINGS)


def test_an_api_without_a_row_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(refused_requests._WHOLE, ApiKey.HEARTBEAT)

    async def story(served: Served) -> None:
        (request,) = access_requests(ApiKey.HEARTBEAT, 3, bytes(16))
        response = await served.send(request, 3)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(story, **SETTINGS)


def test_operations_that_are_checked_exist_for_their_resources() -> None:
    from kavka.core.access.names import SUPPORTED_OPERATIONS

    for needs in NEEDS.values():
        for need in needs:
            assert need.operation in SUPPORTED_OPERATIONS[need.resource]
            assert isinstance(need.operation, AclOperation)
