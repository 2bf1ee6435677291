"""The fault that a request meets."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.errors import ErrorCode
from kavka.testing.request_faults import (
    FaultKind,
    RequestFault,
    RequestFaults,
    api_named,
    code_named,
    names_in,
    names_some,
)
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import encode
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.fetch import FetchRequest, FetchRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.join_group import JoinGroupRequest
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kavka.wire.refusals import can_be_refused, refusal
from support.access_requests import access_requests, errors_in


def faults(*given: RequestFault) -> RequestFaults:
    found = RequestFaults()
    for fault in given:
        found.add(fault)
    return found


def fault(number: int = 1, **options: Any) -> RequestFault:
    return RequestFault(number, ApiKey.PRODUCE, FaultKind.HANG, **options)


def met(table: RequestFaults, *topics: str, client_id: str | None = None) -> int | None:
    found = table.meet(ApiKey.PRODUCE, client_id, lambda _: topics)
    return None if found is None else found.fault_id


def test_a_fault_is_met_after_some_requests_and_so_many_times() -> None:
    table = faults(fault(after=1, times=2))
    assert [met(table) for _ in range(5)] == [None, 1, 1, None, None]
    assert table.hits(1) == 2


def test_the_first_fault_that_fits_is_met_and_the_next_when_it_has_ended() -> None:
    table = faults(fault(1, times=1), fault(2))
    assert [met(table) for _ in range(3)] == [1, 2, 2]


def test_a_fault_is_for_its_api_its_topic_and_its_client() -> None:
    table = faults(fault(1, named={"topic": "a"}), fault(2, client_id="app"))
    assert table.meet(ApiKey.FETCH, "app", lambda _: ["a"]) is None
    assert met(table, "b", "a") == 1
    assert met(table, "b", client_id="app") == 2
    assert met(table, "b", client_id="other") is None


def test_hits_of_a_fault_are_known_when_it_has_been_removed() -> None:
    table = faults(fault())
    met(table)
    table.remove(1)
    assert (met(table), table.hits(1), bool(table)) == (None, 1, False)


def test_names_of_apis_are_kafkas() -> None:
    assert api_named("OffsetCommit") is ApiKey.OFFSET_COMMIT
    assert api_named("offset_commit") is ApiKey.OFFSET_COMMIT
    with pytest.raises(ValueError, match=r"'Write' is no API; these are: Produce, Fetch, "):
        api_named("Write")
    with pytest.raises(ValueError, match=r"'Prodce' is no API; did you mean Produce\?"):
        api_named("Prodce")


def test_codes_are_names_or_numbers() -> None:
    assert code_named("REQUEST_TIMED_OUT", ApiKey.PRODUCE) is ErrorCode.REQUEST_TIMED_OUT
    assert code_named(7, ApiKey.PRODUCE) is ErrorCode.REQUEST_TIMED_OUT
    for wrong in ("BROKEN", 9999, "NONE", 0):
        with pytest.raises(ValueError, match=r"no error"):
            code_named(wrong, ApiKey.PRODUCE)
    with pytest.raises(ValueError, match=r"did you mean NOT_LEADER_OR_FOLLOWER\?"):
        code_named("not_leader_or_follower", ApiKey.PRODUCE)


def test_topics_may_be_named_by_id() -> None:
    request = FetchRequest(
        topics=[FetchRequestTopic(topic="a"), FetchRequestTopic(topic_id=b"b" * 16)]
    )
    assert names_in("topic", ApiKey.FETCH, request, {b"b" * 16: "b"}.get) == ["a", "b"]


def none(_: object) -> None:
    return None


NAMING_GROUP_G = [
    (ApiKey.JOIN_GROUP, JoinGroupRequest(group_id="g")),
    (ApiKey.OFFSET_FETCH, OffsetFetchRequest(group_id="g")),
    (ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])),
    (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="g")),
    (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["g"])),
]


@pytest.mark.parametrize(("key", "request_"), NAMING_GROUP_G)
def test_groups_of_requests_are_known(key: ApiKey, request_: Any) -> None:
    assert [name for name in names_in("group", key, request_, none) if name] == ["g"]


def test_a_coordinator_is_of_a_group_or_of_a_transactional_id() -> None:
    key, request = ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="a", key_type=1)
    assert "a" in names_in("transactional_id", key, request, none)
    assert names_in("group", key, request, none) == []


def test_a_request_names_all_that_a_fault_is_for() -> None:
    table = faults(fault(1, named={"topic": "t", "transactional_id": "x"}))
    names = {"topic": ["t"], "transactional_id": ["y"]}
    assert table.meet(ApiKey.PRODUCE, None, names.__getitem__) is None
    names["transactional_id"] = ["x"]
    assert table.meet(ApiKey.PRODUCE, None, names.__getitem__)


@pytest.mark.parametrize("key", SUPPORTED_APIS)
@pytest.mark.parametrize("kind", ["topic", "group", "transactional_id"])
def test_names_of_each_request_can_be_looked_for(key: ApiKey, kind: str) -> None:
    if names_some(kind, key):
        for request in access_requests(key, APIS[key].max_version, bytes(16)):
            names_in(kind, key, request, none)


REFUSED = [ApiKey(key) for key in APIS if can_be_refused(ApiKey(key))]


@pytest.mark.parametrize("key", REFUSED)
def test_a_refusal_can_be_encoded_in_each_version(key: ApiKey) -> None:
    api = APIS[key]
    first = max(api.min_version, _FROM.get(key, 0))
    for version in range(first, api.max_version + 1):
        request = api.request()()
        if key is ApiKey.FIND_COORDINATOR and version >= 4:
            request.coordinator_keys = ["g"]
        assert encode(refusal(key, request, ErrorCode.REQUEST_TIMED_OUT), version)


def test_each_api_that_a_broker_serves_can_be_refused() -> None:
    assert set(SUPPORTED_APIS) <= set(REFUSED)


@pytest.mark.parametrize("key", SUPPORTED_APIS)
def test_all_that_a_request_asks_for_meets_the_error(key: ApiKey) -> None:
    version = APIS[key].max_version
    requests = access_requests(key, version, bytes(16)) or [APIS[key].request()()]
    for request in requests:
        response = refusal(key, request, ErrorCode.REQUEST_TIMED_OUT)
        assert encode(response, version)
        assert set(errors_in(response)) == {ErrorCode.REQUEST_TIMED_OUT}


def test_rows_of_a_refusal_name_what_was_asked_for() -> None:
    request = DeleteGroupsRequest(groups_names=["g", "h"])
    response = refusal(ApiKey.DELETE_GROUPS, request, ErrorCode.REQUEST_TIMED_OUT)
    assert [row.group_id for row in response.results] == ["g", "h"]
    resource = DescribeConfigsRequestResource(
        resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
    )
    described = DescribeConfigsRequest(resources=[resource])
    (row,) = refusal(ApiKey.DESCRIBE_CONFIGS, described, ErrorCode.REQUEST_TIMED_OUT).results
    assert (row.resource_type, row.resource_name, row.configs) == (2, "t", [])


_FROM = {ApiKey.ELECT_LEADERS: 1}
"""Versions before have no error code for the whole."""
