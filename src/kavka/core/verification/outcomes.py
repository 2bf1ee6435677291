"""The meaning of a coordinator's response for the batches and offsets that waited for it. Pure.

code                                         for a batch                     for offsets
NONE, and the log has not changed meanwhile  appended                        appended
NONE, the log has moved, or was truncated    NOT_ENOUGH_REPLICAS             CONCURRENT_TRANSACTIONS, or the error of
  under another leader                                                       an epoch that was raised meanwhile
one that is over in a moment                 NOT_ENOUGH_REPLICAS             as it is
PRODUCER_FENCED                              INVALID_PRODUCER_EPOCH          as it is
TRANSACTION_ABORTABLE                        INVALID_TXN_STATE below         as it is
                                             Produce 11
any other                                    as it is                        as it is
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from kavka.core.producer_state import ProducerState, Verification
from kavka.errors import ErrorCode

_FIRST_WITH_TRANSACTION_ABORTABLE: Final = 11
_UNANSWERED: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,  # the coordinator does not know yet what was asked with it
)
"""Temporary errors; not all producers try again after these, but after NOT_ENOUGH_REPLICAS they do."""
_FINAL: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""Permanent errors: no batch of this producer and epoch will ever be appended."""
_LONG_AGO_MS: Final = -sys.maxsize


class BegunVerification(NamedTuple):
    """The state of a partition when a verification began."""

    producers: ProducerState
    leader_epoch: int
    verification: Verification
    producer_id: int
    producer_epoch: int


class Refusal(NamedTuple):
    """An error for a producer."""

    error: ErrorCode
    message: str | None = None


def code_for_batches(
    begun: BegunVerification, code: ErrorCode, producers: ProducerState, leader_epoch: int
) -> ErrorCode:
    """Return whether batches may be appended now: NONE, or the error to refuse them with."""
    void_if_final(begun, code)
    if code is not ErrorCode.NONE:
        return code
    is_same_log = producers is begun.producers
    has_led_on = leader_epoch == begun.leader_epoch
    is_valid = begun.producers.is_valid(begun.producer_id, begun.verification)
    if is_same_log and (has_led_on or is_valid):
        return ErrorCode.NONE
    # The log moved, or was cut under another leader: it does not know the verification.
    return ErrorCode.NETWORK_EXCEPTION


def code_for_offsets(
    begun: BegunVerification, code: ErrorCode, producers: ProducerState
) -> ErrorCode:
    """Return whether offsets may be appended in this iteration of the loop: NONE, or the error."""
    void_if_final(begun, code)
    if code is not ErrorCode.NONE:
        return code
    if producers is not begun.producers:
        # The log moved to another directory: the one that is appended to knows of no verification.
        return ErrorCode.NETWORK_EXCEPTION
    if producers.has_open_transaction(begun.producer_id, begun.producer_epoch):
        return ErrorCode.NONE
    if producers.is_valid(begun.producer_id, begun.verification):
        return ErrorCode.NONE
    # A marker came in between, or the log was cut under another leader. The marker of a producer that took over has
    # a newer epoch. Otherwise the coordinator knows best what has become of the transaction: the next try asks it.
    fenced = producers.check_coordinator(begun.producer_id, begun.producer_epoch)
    return ErrorCode.CONCURRENT_TRANSACTIONS if fenced is None else fenced


def void_if_final(begun: BegunVerification, code: ErrorCode) -> None:
    """Mark an entry that is of no further use for removal by the next expiration of producers."""
    verification = begun.verification
    if code in _FINAL and verification.producer_epoch == begun.producer_epoch:
        verification.started_ms = _LONG_AGO_MS


def refusal(code: ErrorCode, version: int) -> Refusal:
    """Return the error of a batch, in the codes of a version of Produce."""
    if code in _UNANSWERED:
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}"
        )
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    if code is ErrorCode.PRODUCER_FENCED:
        return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    is_new = version >= _FIRST_WITH_TRANSACTION_ABORTABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE and not is_new:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return Refusal(code, "Partition was not added to the transaction")
    return Refusal(code)
