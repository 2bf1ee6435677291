"""Idempotent producers of one partition: duplicates are answered, gaps refused, epochs fence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.core.producer_state import (
    CompletedTransaction,
    Duplicate,
    EndMarker,
    ProducerEntry,
    ProducerState,
    advance_sequence,
)
from kavka.errors import ErrorCode
from kavka.wire.records.header import BatchHeader

TRANSACTIONAL = 0x10
CONTROL = 0x20
LAST = 2**31 - 1


def batch(
    sequence: int,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    offset: int = 0,
    timestamp: int = 100,
    attributes: int = 0,
) -> BatchHeader:
    return BatchHeader(
        position=0,
        base_offset=offset,
        batch_length=49,
        size=61,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def written(*batches: BatchHeader) -> ProducerState:
    state = ProducerState()
    offset = 0
    for header in batches:
        assert state.check(header) is None
        state.appended(header, offset)
        offset += header.record_count
    return state


def test_unknown_producer_may_begin_at_any_sequence() -> None:
    assert ProducerState().check(batch(42)) is None


def test_batch_without_producer_id_leaves_no_trace() -> None:
    state = ProducerState()
    state.appended(batch(-1, producer_id=-1, epoch=-1), 0)
    assert state.check(batch(-1, producer_id=-1, epoch=-1)) is None
    assert state.entries() == []


def test_next_sequence_is_taken_and_a_gap_is_refused() -> None:
    state = written(batch(0, 10))
    assert state.check(batch(10)) is None
    assert state.check(batch(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(batch(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_recognised_and_the_sixth_is_not() -> None:
    state = written(*(batch(2 * n, 2, timestamp=n) for n in range(6)))
    for n in range(1, 6):
        assert state.check(batch(2 * n, 2)) == Duplicate(2 * n, 2 * n + 1, n)
    assert state.check(batch(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_came_before_a_snapshots_batch_counts_as_written() -> None:
    state = ProducerState()
    state.load(written(*(batch(2 * n, 2) for n in range(3))).entries())
    before_it = Duplicate(-1, 3, -1)  # acks=all waits for the replicas up to there
    assert state.check(batch(0, 2)) == before_it
    assert state.check(batch(2, 2)) == before_it
    assert isinstance(state.check(batch(4, 2)), Duplicate)
    assert state.check(batch(6, 2)) is None
    assert state.check(batch(7, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_same_first_sequence_with_another_length_is_no_duplicate() -> None:
    assert written(batch(0, 3)).check(batch(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_older_epoch_is_fenced_even_when_its_batch_was_written() -> None:
    state = written(batch(0), batch(0, epoch=1))
    assert state.check(batch(0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_newer_epoch_begins_at_sequence_zero() -> None:
    state = written(batch(0))
    assert state.check(batch(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(batch(0, epoch=1)) is None


def test_sequences_wrap_within_a_batch_and_between_batches() -> None:
    state = written(batch(LAST - 1, 4))
    assert state.check(batch(LAST - 1, 4)) == Duplicate(0, 3, 100)
    assert state.check(batch(2)) is None
    edge = written(batch(LAST - 1, 2))
    assert edge.check(batch(0)) is None


@given(st.integers(0, LAST), st.integers(0, 2000))
def test_advancing_a_sequence_stays_in_range(sequence: int, by: int) -> None:
    advanced = advance_sequence(sequence, by)
    assert 0 <= advanced <= LAST
    assert (advanced - sequence - by) % 2**31 == 0


def test_producers_expire_by_their_last_timestamp() -> None:
    state = written(batch(0, producer_id=1, timestamp=100), batch(0, producer_id=2, timestamp=200))
    assert state.expire(299, 100) == 1
    assert [entry.producer_id for entry in state.entries()] == [2]
    assert state.check(batch(5, producer_id=1)) is None


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    state = written(batch(0, attributes=TRANSACTIONAL))
    assert state.expire(10**9, 1) == 0


def test_loaded_entries_give_the_state_that_was_saved() -> None:
    state = written(batch(0, 3), batch(3, 2), batch(0, producer_id=9, attributes=TRANSACTIONAL))
    entries = state.entries()
    assert entries[0] == ProducerEntry(7, 0, 4, 4, 1, 100, -1, -1)
    loaded = ProducerState()
    loaded.load(entries)
    assert loaded.entries() == entries
    assert loaded.check(batch(3, 2)) == Duplicate(3, 4, 100)
    assert loaded.check(batch(5)) is None
    assert loaded.first_unstable_offset() == 5


def test_replaying_the_log_gives_the_state_of_the_leader() -> None:
    headers = [batch(0, 3), batch(3, 2), batch(0, 2, epoch=1)]
    leader, follower, offset = ProducerState(), ProducerState(), 0
    for header in headers:
        leader.appended(header, offset)
        follower.replay(header._replace(base_offset=offset))
        offset += header.record_count
    assert follower.entries() == leader.entries()


def test_first_unstable_offset_is_the_oldest_open_transaction_until_its_marker_is_replicated() -> (
    None
):
    state = written(
        batch(0, producer_id=1, attributes=TRANSACTIONAL),
        batch(0, producer_id=2, attributes=TRANSACTIONAL),
    )
    marker = batch(-1, producer_id=1, attributes=TRANSACTIONAL | CONTROL, offset=2)
    completed = state.replay(marker, EndMarker(committed=False, coordinator_epoch=3))
    assert completed == CompletedTransaction(1, 0, 2, aborted=True)
    assert state.first_unstable_offset() == 0
    state.high_watermark_advanced(3)
    assert state.first_unstable_offset() == 1


def test_marker_fences_by_producer_epoch_and_coordinator_epoch() -> None:
    state = written(batch(0, epoch=4, attributes=TRANSACTIONAL))
    control = batch(-1, epoch=4, attributes=TRANSACTIONAL | CONTROL)
    assert state.check_marker(7, 3, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check_marker(7, 4, 0) is None
    state.marker_appended(control, 1, EndMarker(committed=True, coordinator_epoch=5))
    assert state.check_marker(7, 4, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert state.first_unstable_offset() == 0


def test_a_marker_that_raised_the_epoch_does_not_end_the_next_transaction() -> None:
    state = written(batch(0, epoch=4, attributes=TRANSACTIONAL))
    assert state.check_marker(7, 5, 0, raises_epoch=True) is None
    control = batch(-1, epoch=5, attributes=TRANSACTIONAL | CONTROL)
    state.marker_appended(control, 1, EndMarker(committed=True, coordinator_epoch=0))
    assert state.check_marker(7, 5, 0, raises_epoch=True) is None  # asked again, with nothing open
    state.appended(batch(0, epoch=5, attributes=TRANSACTIONAL), 2)
    assert state.check_marker(7, 5, 0, raises_epoch=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check_marker(7, 6, 0, raises_epoch=True) is None
    assert state.check_marker(7, 5, 0) is None  # of a producer whose epoch stays


def test_the_marker_of_the_transaction_before_voids_nothing_where_ends_raise_the_epoch() -> None:
    state = written(batch(0, epoch=4, attributes=TRANSACTIONAL))
    asked = state.begin_verification(7, 5, 0, 0, raises_epoch=True)
    ended = EndMarker(committed=True, coordinator_epoch=0)
    state.marker_appended(batch(-1, epoch=5, attributes=TRANSACTIONAL | CONTROL), 1, ended)
    assert state.check_verified(batch(0, epoch=5, attributes=TRANSACTIONAL), asked) is None
    state.marker_appended(batch(-1, epoch=6, attributes=TRANSACTIONAL | CONTROL), 2, ended)
    first = batch(0, epoch=5, attributes=TRANSACTIONAL)
    assert state.check_verified(first, asked) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_plain_batch_inside_a_transaction_is_refused() -> None:
    state = written(batch(0, attributes=TRANSACTIONAL))
    assert state.check(batch(1)) is ErrorCode.INVALID_TXN_STATE


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(0, LAST))
def test_batches_sent_twice_are_written_once(counts: list[int], start: int) -> None:
    state, offset, sequence = ProducerState(), 0, start
    for count in counts:
        header = batch(sequence, count)
        assert state.check(header) is None
        state.appended(header, offset)
        assert state.check(header) == Duplicate(offset, offset + count - 1, 100)
        offset, sequence = offset + count, advance_sequence(sequence, count)


def test_a_marker_makes_the_verification_before_it_void() -> None:
    state = ProducerState()
    late = state.begin_verification(7, 0, 0, 100)
    state.marker_appended(batch(-1, attributes=TRANSACTIONAL | CONTROL), 0, EndMarker(False, 0))
    assert not state.is_valid(7, late)
    assert state.check_verified(batch(0, attributes=TRANSACTIONAL), late) is (
        ErrorCode.INVALID_TXN_STATE
    )
    second = state.begin_verification(7, 0, 0, 100)
    assert state.check_verified(batch(0, attributes=TRANSACTIONAL), late) is (
        ErrorCode.INVALID_TXN_STATE
    )
    assert state.check_verified(batch(0, attributes=TRANSACTIONAL), second) is None


def test_an_open_transaction_needs_no_verification_in_its_epoch() -> None:
    state = written(batch(0, attributes=TRANSACTIONAL))
    assert state.has_open_transaction(7, 0)
    assert state.check_verified(batch(1, attributes=TRANSACTIONAL), None) is None
    newer = batch(0, epoch=1, attributes=TRANSACTIONAL)
    assert state.check_verified(newer, None) is ErrorCode.INVALID_TXN_STATE


def test_the_lowest_sequence_of_a_new_transaction_goes_first() -> None:
    state = ProducerState()
    second = state.begin_verification(7, 0, 3, 100)
    first = state.begin_verification(7, 0, 0, 100)
    assert first is second
    assert state.check_verified(batch(3, attributes=TRANSACTIONAL), second) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert state.check_verified(batch(0, 3, attributes=TRANSACTIONAL), first) is None
    state.appended(batch(0, 3, attributes=TRANSACTIONAL), 0)
    assert state.check_verified(batch(3, attributes=TRANSACTIONAL), second) is None


def test_a_newer_epoch_asks_for_itself() -> None:
    state = ProducerState()
    old = state.begin_verification(7, 0, 5, 100)
    new = state.begin_verification(7, 1, 0, 100)
    assert not state.is_valid(7, old)
    assert state.begin_verification(7, 0, 1, 100) is new
    assert new.lowest_sequence == 0


def test_unused_verifications_expire() -> None:
    state = ProducerState()
    asked = state.begin_verification(7, 0, 0, 100)
    state.expire(now_ms=1_099, expiration_ms=1_000)
    assert state.is_valid(7, asked)
    state.expire(now_ms=1_100, expiration_ms=1_000)
    assert not state.is_valid(7, asked)
