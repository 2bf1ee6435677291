"""The fault that a request meets."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.testing.refusals import can_be_refused, refusal
from kavka.testing.request_faults import (
    FaultKind,
    RequestFault,
    RequestFaults,
    api_named,
    code_named,
    topics_of,
)
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import encode
from kavka.wire.messages.fetch import FetchRequest, FetchRequestTopic


def faults(*given: RequestFault) -> RequestFaults:
    found = RequestFaults()
    for fault in given:
        found.add(fault)
    return found


def fault(number: int = 1, **options: Any) -> RequestFault:
    return RequestFault(number, ApiKey.PRODUCE, FaultKind.HANG, **options)


def met(table: RequestFaults, *topics: str, client_id: str | None = None) -> int | None:
    found = table.meet(ApiKey.PRODUCE, client_id, lambda: topics)
    return None if found is None else found.fault_id


def test_a_fault_is_met_after_some_requests_and_so_many_times() -> None:
    table = faults(fault(after=1, times=2))
    assert [met(table) for _ in range(5)] == [None, 1, 1, None, None]
    assert table.hits(1) == 2


def test_the_first_fault_that_fits_is_met_and_the_next_when_it_has_ended() -> None:
    table = faults(fault(1, times=1), fault(2))
    assert [met(table) for _ in range(3)] == [1, 2, 2]


def test_a_fault_is_for_its_api_its_topic_and_its_client() -> None:
    table = faults(fault(1, topic="a"), fault(2, client_id="app"))
    assert table.meet(ApiKey.FETCH, "app", lambda: ["a"]) is None
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


def test_codes_are_names_or_numbers() -> None:
    assert code_named("REQUEST_TIMED_OUT", ApiKey.PRODUCE) is ErrorCode.REQUEST_TIMED_OUT
    assert code_named(7, ApiKey.PRODUCE) is ErrorCode.REQUEST_TIMED_OUT
    for wrong in ("BROKEN", 9999, "NONE", 0):
        with pytest.raises(ValueError, match=r"no error"):
            code_named(wrong, ApiKey.PRODUCE)


def test_topics_may_be_named_by_id() -> None:
    request = FetchRequest(
        topics=[FetchRequestTopic(topic="a"), FetchRequestTopic(topic_id=b"b" * 16)]
    )
    assert topics_of(ApiKey.FETCH, request, {b"b" * 16: "b"}.get) == ["a", "b"]


@pytest.mark.parametrize("key", [ApiKey(key) for key in APIS if can_be_refused(ApiKey(key))])
def test_a_refusal_can_be_encoded_in_each_version(key: ApiKey) -> None:
    api = APIS[key]
    first = max(api.min_version, _FROM.get(key, 0))
    for version in range(first, api.max_version + 1):
        request = api.request()()
        if key is ApiKey.FIND_COORDINATOR and version >= 4:
            request.coordinator_keys = ["g"]
        assert encode(refusal(key, request, ErrorCode.REQUEST_TIMED_OUT), version)


_FROM = {ApiKey.ELECT_LEADERS: 1}
"""Versions before have no error code for the whole."""
