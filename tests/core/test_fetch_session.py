"""Fetch sessions answer only what is new, and keep their slots by Kafka's rules."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.core.fetch_session import (
    FetchContext,
    FetchOutcome,
    FetchPartition,
    FetchSessionCache,
    PartitionKey,
)
from kavka.errors import ErrorCode

A: PartitionKey = ("t", 0)
B: PartitionKey = ("t", 1)
QUIET = FetchOutcome(0, 5, 0, 0)


def begin(
    cache: FetchSessionCache,
    session_id: int,
    epoch: int,
    keys: Iterable[PartitionKey] = (),
    forgotten: Iterable[PartitionKey] = (),
    *,
    by_topic_id: bool = False,
    is_follower: bool = False,
    now_ms: int = 0,
) -> FetchContext | ErrorCode:
    return cache.begin(
        session_id,
        epoch,
        {key: FetchPartition(0, 1000) for key in keys},
        forgotten,
        by_topic_id=by_topic_id,
        is_follower=is_follower,
        now_ms=now_ms,
    )


def open_session(
    cache: FetchSessionCache,
    *keys: PartitionKey,
    candidate: int = 9,
    is_follower: bool = False,
    now_ms: int = 0,
) -> int:
    context = begin(cache, 0, 0, keys, is_follower=is_follower, now_ms=now_ms)
    assert isinstance(context, FetchContext)
    return context.finish(dict.fromkeys(keys, QUIET), candidate, now_ms).session_id


def incremental(
    cache: FetchSessionCache, session_id: int, epoch: int, *keys: PartitionKey
) -> FetchContext:
    context = begin(cache, session_id, epoch, keys)
    assert isinstance(context, FetchContext), context
    return context


def test_full_fetch_opens_a_session_and_answers_everything() -> None:
    cache = FetchSessionCache(10)
    context = begin(cache, 0, 0, [A, B])
    assert isinstance(context, FetchContext)
    reply = context.finish({A: QUIET, B: QUIET}, 9, 0)
    assert reply.session_id == 9
    assert reply.partitions == [A, B]


def test_sessionless_fetch_opens_none() -> None:
    cache = FetchSessionCache(10)
    context = begin(cache, 0, -1, [A])
    assert isinstance(context, FetchContext)
    assert context.finish({A: QUIET}, 9, 0).session_id == 0
    assert len(cache) == 0


def test_incremental_response_holds_only_what_is_new() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A, B)
    context = incremental(cache, session, 1)
    assert [key for key, _ in context.partitions()] == [A, B]
    moved = QUIET._replace(high_watermark=6)
    assert context.finish({A: QUIET, B: moved}, 0, 0).partitions == [B]
    context = incremental(cache, session, 2)
    assert context.finish({A: QUIET, B: moved}, 0, 0).partitions == []


def test_partition_is_sent_again_when_its_error_has_gone() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A)
    failed = FetchOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 0, 0)
    assert incremental(cache, session, 1).finish({A: failed}, 0, 0).partitions == [A]
    assert incremental(cache, session, 2).finish({A: QUIET}, 0, 0).partitions == [A]
    assert incremental(cache, session, 3).finish({A: QUIET}, 0, 0).partitions == []


def test_partition_that_gave_records_goes_to_the_end() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A, B)
    context = incremental(cache, session, 1)
    context.finish({A: QUIET._replace(records_length=10), B: QUIET}, 0, 0)
    assert [key for key, _ in incremental(cache, session, 2).partitions()] == [B, A]


def test_forgotten_partitions_leave_and_an_empty_session_closes() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A, B)
    context = begin(cache, session, 1, forgotten=[A])
    assert isinstance(context, FetchContext)
    assert [key for key, _ in context.partitions()] == [B]
    last = begin(cache, session, 2, forgotten=[B])
    assert isinstance(last, FetchContext)
    assert last.session_id == 0
    assert last.partitions() == []
    assert begin(cache, session, 3) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_wrong_id_epoch_and_kind_of_name_are_refused() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A)
    assert begin(cache, session + 1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begin(cache, session, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert begin(cache, session, 1, by_topic_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_response_overtaken_by_a_newer_request_is_refused() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A)
    slow = incremental(cache, session, 1)
    incremental(cache, session, 2)
    assert slow.finish({A: QUIET}, 0, 0).error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_taken_candidate_id_gives_the_next_free_one() -> None:
    cache = FetchSessionCache(10)
    assert [open_session(cache, A, candidate=2**31 - 1) for _ in range(2)] == [2**31 - 1, 1]


def test_full_cache_evicts_a_stale_session_only() -> None:
    cache = FetchSessionCache(1)
    first = open_session(cache, A, now_ms=0)
    assert open_session(cache, A, B, candidate=20, now_ms=120_000) == 0
    assert open_session(cache, A, candidate=20, now_ms=120_001) == 20
    assert begin(cache, first, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_larger_session_takes_the_slot_of_an_old_smaller_one_in_use() -> None:
    cache = FetchSessionCache(1)
    first = open_session(cache, A)
    assert isinstance(begin(cache, first, 1, now_ms=120_000), FetchContext)
    assert open_session(cache, A, candidate=20, now_ms=130_000) == 0
    assert open_session(cache, A, B, candidate=20, now_ms=130_000) == 20


def test_follower_takes_a_consumers_slot_and_never_loses_its_own_to_one() -> None:
    cache = FetchSessionCache(1)
    open_session(cache, A, B)
    follower = open_session(cache, A, candidate=20, is_follower=True)
    assert follower == 20
    assert isinstance(begin(cache, follower, 1, is_follower=True, now_ms=120_000), FetchContext)
    assert open_session(cache, A, B, candidate=30, now_ms=121_000) == 0


UNKNOWN = FetchOutcome(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1, -1, 0)


def keys(count: int, topic: str = "t") -> list[PartitionKey]:
    return [(topic, index) for index in range(count)]


def test_sessions_remember_no_more_partitions_than_they_may_together() -> None:
    cache = FetchSessionCache(10, 100)
    first = open_session(cache, *keys(60))
    assert first == 9
    assert open_session(cache, *keys(41), candidate=20) == 0
    assert open_session(cache, *keys(40), candidate=20) == 20
    assert cache.partition_count == 100
    begin(cache, first, -1)
    assert cache.partition_count == 40


def test_an_unused_session_is_evicted_for_partitions() -> None:
    cache = FetchSessionCache(10, 100)
    open_session(cache, *keys(60), now_ms=0)
    assert open_session(cache, *keys(60), candidate=20, now_ms=120_000) == 0
    assert open_session(cache, *keys(60), candidate=20, now_ms=120_001) == 20
    assert (len(cache), cache.partition_count, cache.evictions) == (1, 60, 1)


def test_a_session_that_grows_beyond_the_room_is_answered_and_ends() -> None:
    cache = FetchSessionCache(10, 100)
    session = open_session(cache, *keys(60))
    context = incremental(cache, session, 1, *keys(50, "u"))
    assert len(context.partitions()) == 110
    reply = context.finish(dict.fromkeys(keys(50, "u"), QUIET), 0, 0)
    assert (reply.error_code, reply.session_id) == (ErrorCode.NONE, 0)
    assert reply.partitions == keys(50, "u")
    assert (len(cache), cache.partition_count) == (0, 0)
    assert begin(cache, session, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_forgetting_gives_room_back() -> None:
    cache = FetchSessionCache(10, 100)
    session = open_session(cache, *keys(100))
    begin(cache, session, 1, forgotten=keys(70))
    assert cache.partition_count == 30
    assert open_session(cache, *keys(70), candidate=20) == 20


def test_many_unknown_partitions_get_no_session() -> None:
    cache = FetchSessionCache(10)
    for count, session_id in ((100, 9), (101, 0)):
        context = begin(cache, 0, 0, keys(count))
        assert isinstance(context, FetchContext)
        reply = context.finish(dict.fromkeys(keys(count), UNKNOWN), 9, 0)
        assert reply.session_id == session_id
        assert reply.partitions == keys(count)


def test_many_unknown_partitions_among_more_known_ones_are_kept() -> None:
    cache = FetchSessionCache(10)
    context = begin(cache, 0, 0, keys(400))
    assert isinstance(context, FetchContext)
    outcomes = dict.fromkeys(keys(400), QUIET) | dict.fromkeys(keys(200), UNKNOWN)
    assert context.finish(outcomes, 9, 0).session_id == 9


def test_a_session_to_which_many_unknown_partitions_are_added_ends() -> None:
    cache = FetchSessionCache(10)
    session = open_session(cache, A)
    context = incremental(cache, session, 1, *keys(200, "u"))
    outcomes = {A: QUIET} | dict.fromkeys(keys(200, "u"), UNKNOWN)
    reply = context.finish(outcomes, 0, 0)
    assert (reply.error_code, reply.session_id) == (ErrorCode.NONE, 0)
    assert reply.partitions == keys(200, "u")
    assert (len(cache), cache.partition_count) == (0, 0)
