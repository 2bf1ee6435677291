import pytest

from kavka.client.consumer.fetch.session import FetchSession, FetchTarget
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NO_ID = bytes(16)


def want(offset=0, epoch=0, topic_id=NO_ID):
    return FetchTarget(offset, 1000, epoch, topic_id)


def opened(partitions=(A, B)):
    session = FetchSession()
    session.request(dict.fromkeys(partitions, want()), False)
    assert session.on_response(ErrorCode.NONE, 7, partitions)
    return session


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    request = FetchSession().request({A: want(), B: want()}, False)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert list(request.added) == [A, B]


def test_later_requests_name_only_what_has_changed() -> None:
    session = opened()
    request = session.request({A: want(5), B: want()}, False)
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert (request.added, request.forgotten) == ({A: want(5)}, {})
    assert session.on_response(ErrorCode.NONE, 7, [])
    request = session.request({A: want(5)}, False)
    assert (request.session_epoch, request.added) == (2, {})
    assert request.forgotten == {B: NO_ID}


def test_a_partition_that_comes_back_is_named_again() -> None:
    session = opened()
    session.request({A: want()}, False)
    session.on_response(ErrorCode.NONE, 7, [])
    assert session.request({A: want(), B: want()}, False).added == {B: want()}


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7)],
)
def test_after_a_refusal_a_full_request_begins_again(code: ErrorCode, session_id: int) -> None:
    session = opened()
    session.request({A: want(), B: want()}, False)
    assert not session.on_response(code, 0, [])
    request = session.request({A: want(), B: want()}, False)
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert list(request.added) == [A, B]


def test_after_a_lost_connection_the_old_session_is_ended_by_the_next_one() -> None:
    session = opened()
    session.lost()
    request = session.request({A: want()}, False)
    assert (request.session_id, request.session_epoch, list(request.added)) == (7, 0, [A])


def test_a_response_about_what_was_not_asked_is_not_used() -> None:
    session = opened((A,))
    session.request({A: want()}, False)
    assert not session.on_response(ErrorCode.NONE, 7, [B])
    assert session.request({A: want()}, False).session_epoch == 0


def test_a_full_response_that_lacks_a_partition_is_not_used() -> None:
    session = FetchSession()
    session.request({A: want(), B: want()}, False)
    assert not session.on_response(ErrorCode.NONE, 7, [A])


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSession()
    for _ in range(2):
        request = session.request({A: want()}, False)
        assert (request.session_id, request.session_epoch, list(request.added)) == (0, 0, [A])
        assert session.on_response(ErrorCode.NONE, 0, [A])


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    session = opened()
    request = session.request({A: want(topic_id=b"i" * 16)}, True)
    assert (request.session_id, request.session_epoch) == (7, 0)


def test_a_topic_that_was_created_again_begins_a_session() -> None:
    session = FetchSession()
    session.request({A: want(topic_id=b"1" * 16)}, True)
    session.on_response(ErrorCode.NONE, 7, [A])
    assert session.request({A: want(topic_id=b"2" * 16)}, True).session_epoch == 0


def test_epochs_go_from_the_last_to_one() -> None:
    session = opened()
    session._metadata.epoch = 2**31 - 1
    session.request({A: want(), B: want()}, False)
    session.on_response(ErrorCode.NONE, 7, [])
    assert session.request({A: want(), B: want()}, False).session_epoch == 1
