"""The session that a fetcher names next: the table of KIP-227."""

from __future__ import annotations

import pytest

from kavka.core.fetch_metadata import FetchMetadata
from kavka.errors import ErrorCode

NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
REFUSED = ErrorCode.INVALID_FETCH_SESSION_EPOCH


def established() -> FetchMetadata:
    position = FetchMetadata()
    assert (position.session_id, position.request_sent()) == (0, 0)
    assert position.response_received(ErrorCode.NONE, 7, was_full=True)
    return position


def test_epochs_count_from_the_response_with_an_id() -> None:
    position = established()
    assert position.session_id == 7
    assert [position.request_sent() for _ in range(3)] == [1, 2, 3]


def test_no_session_is_asked_for_again_with_each_full_request() -> None:
    position = FetchMetadata()
    for _ in range(2):
        assert (position.session_id, position.request_sent()) == (0, 0)
        assert position.response_received(ErrorCode.NONE, 0, was_full=True)


@pytest.mark.parametrize(("error", "left"), [(NOT_FOUND, 0), (REFUSED, 7)])
def test_a_session_that_may_still_be_there_is_ended_by_the_next_request(
    error: ErrorCode, left: int
) -> None:
    position = established()
    position.request_sent()
    assert not position.response_received(error, 0, was_full=False)
    assert (position.session_id, position.request_sent()) == (left, 0)


def test_a_broker_ends_a_session_by_answering_without_one() -> None:
    position = established()
    position.request_sent()
    assert position.response_received(ErrorCode.NONE, 0, was_full=False)
    assert (position.session_id, position.request_sent()) == (0, 0)


def test_a_session_without_response_is_begun_again() -> None:
    position = established()
    position.request_sent()
    position.restart()
    assert not position.is_incremental
    assert (position.session_id, position.request_sent()) == (7, 0)


def test_one_follows_the_last_epoch() -> None:
    position = established()
    position.epoch = 2**31 - 1
    assert [position.request_sent(), position.request_sent()] == [2**31 - 1, 1]
