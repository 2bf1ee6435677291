"""A partition of a fetcher."""

from __future__ import annotations

from kavka.broker.replica import Replica
from kavka.broker.replication.follower_log import FollowerLog
from kavka.core.follower import FollowedPartition


class Followed:
    """The replica, its machine, and the topic id that the leader knows it by."""

    __slots__ = ("has_begun", "log", "machine", "replica", "topic_id")

    def __init__(self, replica: Replica, longest_backoff_ms: int) -> None:
        """Follow in the present leader epoch."""
        self.replica = replica
        self.topic_id = replica.partition.topic_id
        self.has_begun = False
        self.log = FollowerLog(replica)
        epoch = replica.partition.leader_epoch
        self.machine = FollowedPartition(self.log, epoch, longest_backoff_ms=longest_backoff_ms)

    def adapt(self, *, is_checked_by_fetch: bool, longest_backoff_ms: int) -> None:
        """Begin as the leader's version of Fetch needs it, unless so it is."""
        if self.machine.is_checked_by_fetch != is_checked_by_fetch:
            self.machine = FollowedPartition(
                self.log,
                self.log.leader_epoch,
                is_checked_by_fetch=is_checked_by_fetch,
                longest_backoff_ms=longest_backoff_ms,
            )
