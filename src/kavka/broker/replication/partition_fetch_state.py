"""The fetch state of a followed partition: its machine, its log, its delay and its errors."""

from __future__ import annotations

from typing import Final

from kavka.broker.partitions.replica import Replica
from kavka.broker.replication.follower_log import FollowerLog
from kavka.core.follower import FollowedPartition
from kavka.errors import ErrorCode

_TRANSIENT_ERRORS: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)
"""Errors while leader or follower have not been notified yet of an election, a new topic or a deletion."""
_TRANSIENT_MS: Final = 5_000
_REPEAT_MS: Final = 60_000


class PartitionFetchState:
    """The replica, its machine, and the topic id that the leader knows it by."""

    __slots__ = (
        "has_started",
        "log",
        "machine",
        "refused_since_ms",
        "replica",
        "reported_ms",
        "topic_id",
    )

    def __init__(self, replica: Replica, max_backoff_ms: int) -> None:
        """Follow in the present leader epoch."""
        self.replica = replica
        self.topic_id = replica.partition.topic_id
        self.has_started = False
        self.refused_since_ms: int | None = None
        """Time since which every fetch is refused; None when the last one succeeded."""
        self.reported_ms: int | None = None
        self.log = FollowerLog(replica)
        epoch = replica.partition.leader_epoch
        self.machine = FollowedPartition(self.log, epoch, max_backoff_ms=max_backoff_ms)

    def note_refusal(self, error: ErrorCode, now_ms: int) -> bool:
        """Return whether a refusal is to be logged: a temporary one after some time, each at most once a minute."""
        if self.refused_since_ms is None:
            self.refused_since_ms = now_ms
        if error in _TRANSIENT_ERRORS and now_ms - self.refused_since_ms < _TRANSIENT_MS:
            return False
        if self.reported_ms is not None and now_ms - self.reported_ms < _REPEAT_MS:
            return False
        self.reported_ms = now_ms
        return True

    def note_response(self) -> None:
        """Note that a fetch was answered."""
        self.refused_since_ms = None

    def adapt(self, *, is_checked_by_fetch: bool, max_backoff_ms: int) -> None:
        """Begin as the leader's version of Fetch needs it, unless so it is."""
        if self.machine.is_checked_by_fetch != is_checked_by_fetch:
            self.machine = FollowedPartition(
                self.log,
                self.log.leader_epoch,
                is_checked_by_fetch=is_checked_by_fetch,
                max_backoff_ms=max_backoff_ms,
            )
