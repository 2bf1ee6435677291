"""Replies to requests with records that the log refused, or that were not committed in time."""

from __future__ import annotations

from kavka.core.group.events import (
    CommitReply,
    DeleteGroupReply,
    DeleteOffsetsReply,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    Reply,
    SyncReply,
)
from kavka.errors import ErrorCode

# What a refused append means to a client (Kafka's GroupMetadataManager).
_UNAVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def reply_for_refused_append(reply: Reply, error: ErrorCode) -> Reply:
    """Return what the asker gets when the records that its reply waited for were refused."""
    match reply:
        case JoinReply():
            return JoinReply(store_error(error))
        case SyncReply():
            return SyncReply(store_error(error))
        case CommitReply():
            return CommitReply(_refused_rows(reply.partitions, _commit_error(error)))
        case DeleteOffsetsReply():
            return DeleteOffsetsReply(
                reply.error_code, _refused_rows(reply.partitions, _commit_error(error))
            )
        case DeleteGroupReply():
            return DeleteGroupReply(_commit_error(error))
        case FetchOffsetsReply():
            return FetchOffsetsReply(_fetch_error(error))
        case HeartbeatReply() | LeaveReply():
            return reply  # it did not depend on the records


def store_error(error: ErrorCode) -> ErrorCode:
    """Return the error for members of a generation that was not stored."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


def _commit_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a request with offsets, or a deletion, that were not stored."""
    if error in (*_UNAVAILABLE, ErrorCode.REQUEST_TIMED_OUT):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else error


def _fetch_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a fetch of offsets that were not confirmed.

    The client retries, here unless another broker is known to lead. librdkafka asks never again after NOT_COORDINATOR
    and COORDINATOR_NOT_AVAILABLE (its issue 5586).
    """
    if error in (*_UNAVAILABLE, ErrorCode.REQUEST_TIMED_OUT):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR if error in _MOVED else error


def _refused_rows(
    rows: tuple[tuple[str, int, ErrorCode], ...], error: ErrorCode
) -> tuple[tuple[str, int, ErrorCode], ...]:
    return tuple((t, p, error if own is ErrorCode.NONE else own) for t, p, own in rows)
