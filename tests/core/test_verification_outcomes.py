"""The meaning of a coordinator's response for batches and offsets that waited for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.core.producer_state import EndMarker, ProducerState
from kavka.core.verification.outcomes import (
    BegunVerification,
    code_for_batches,
    code_for_offsets,
    refusal,
)
from kavka.errors import ErrorCode

NONE = ErrorCode.NONE
PRODUCER_ID = 7
DAY_MS = 24 * 60 * 60 * 1000


def begin(producers: ProducerState, epoch: int = 0, of_epoch: int | None = None) -> Any:
    """Begin to verify a batch; with `of_epoch` a newer one is being verified already."""
    producers.begin_verification(PRODUCER_ID, epoch if of_epoch is None else of_epoch, 0, 0)
    verification = producers.begin_verification(PRODUCER_ID, epoch, 0, 0)
    return BegunVerification(producers, 5, verification, PRODUCER_ID, epoch)


def end_transaction(producers: ProducerState, epoch: int = 0) -> None:
    """Append a marker."""
    header: Any = SimpleNamespace(
        producer_id=PRODUCER_ID, producer_epoch=epoch, max_timestamp=0, last_offset_delta=0
    )
    producers.marker_appended(header, 10, EndMarker(committed=False, coordinator_epoch=0))


def test_batches_are_appended_to_the_log_that_was_verified() -> None:
    producers = ProducerState()
    assert code_for_batches(begin(producers), NONE, producers, 5) is NONE


def test_batches_are_sent_again_to_a_log_that_moved() -> None:
    code = code_for_batches(begin(ProducerState()), NONE, ProducerState(), 5)
    assert code is ErrorCode.NETWORK_EXCEPTION


def test_batches_are_sent_again_to_a_log_that_another_leader_has_truncated() -> None:
    producers = ProducerState()
    begun = begin(producers)
    assert code_for_batches(begun, NONE, producers, 6) is NONE  # the log still knows of it
    producers.clear()
    assert code_for_batches(begun, NONE, producers, 6) is ErrorCode.NETWORK_EXCEPTION


def test_a_marker_under_the_same_leader_is_for_the_log_to_judge() -> None:
    producers = ProducerState()
    begun = begin(producers)
    end_transaction(producers)
    assert code_for_batches(begun, NONE, producers, 5) is NONE


def test_offsets_are_appended_to_the_log_that_was_verified() -> None:
    producers = ProducerState()
    assert code_for_offsets(begin(producers), NONE, producers) is NONE


def test_offsets_are_sent_again_to_a_log_that_moved() -> None:
    code = code_for_offsets(begin(ProducerState()), NONE, ProducerState())
    assert code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize(
    ("marker_epoch", "expected"),
    [(0, ErrorCode.CONCURRENT_TRANSACTIONS), (1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_offsets_wait_or_are_fenced_after_a_marker(marker_epoch: int, expected: ErrorCode) -> None:
    producers = ProducerState()
    begun = begin(producers)
    end_transaction(producers, marker_epoch)
    assert code_for_offsets(begun, NONE, producers) is expected


@pytest.mark.parametrize("judge", ["batches", "offsets"])
@pytest.mark.parametrize(
    ("code", "is_dropped"),
    [
        (ErrorCode.PRODUCER_FENCED, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False),
        (ErrorCode.TRANSACTION_ABORTABLE, False),
    ],
)
def test_a_verification_without_hope_is_dropped_by_the_next_sweep(
    judge: str, code: ErrorCode, is_dropped: bool
) -> None:
    producers = ProducerState()
    begun = begin(producers)
    if judge == "batches":
        assert code_for_batches(begun, code, producers, 5) is code
    else:
        assert code_for_offsets(begun, code, producers) is code
    producers.expire(0, DAY_MS)
    assert producers.is_valid(PRODUCER_ID, begun.verification) is not is_dropped


def test_the_response_about_an_old_epoch_drops_no_verification_of_a_newer_one() -> None:
    producers = ProducerState()
    begun = begin(producers, epoch=0, of_epoch=1)
    code_for_batches(begun, ErrorCode.PRODUCER_FENCED, producers, 5)
    producers.expire(0, DAY_MS)
    assert producers.is_valid(PRODUCER_ID, begun.verification)


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_producers_get_the_codes_of_their_version(
    code: ErrorCode, version: int, expected: ErrorCode
) -> None:
    assert refusal(code, version).error is expected


def test_a_producer_reads_why_its_batch_was_not_verified() -> None:
    found = refusal(ErrorCode.NOT_COORDINATOR, 9)
    assert found.message is not None
    assert found.message.endswith("Underlying error: NOT_COORDINATOR")
    assert refusal(ErrorCode.INVALID_TXN_STATE, 9).message == (
        "Partition was not added to the transaction"
    )
