"""The leader's state of its followers' fetch sessions (KIP-227).

A session is kept as a list of what is *dirty*: partitions that the follower named, and those that were touched since
it last learned of them. Only these are checked, so that a fetch of a thousand quiet partitions costs as much as one of
none, and an append wakes the fetch that waits for it within the same iteration of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replication_rounds import ROUND_S, ReplicationRounds
from kavka.broker.requests.deferred import DeferredResponse, SecondStage
from kavka.core.fetch_session import NO_SESSION, FetchPartition, PartitionKey
from kavka.core.partition import FollowerActivity
from kavka.ids import BrokerId, TopicPartition
from kavka.net.connection import Connection
from kavka.wire.frame import EncodedResponse
from kavka.wire.messages.fetch import FetchResponse

_HIGH_WATERMARK_WAIT_S: Final = 0.005
"""Seconds for which changes of high watermarks alone may wait for records to go with."""


class SessionPartition:
    """A partition of a session: the last fetch parameters, and the offsets last sent."""

    __slots__ = ("_session", "is_named", "key", "replica", "requested", "sent", "topic_partition")

    def __init__(
        self, session: FollowerSession, key: PartitionKey, requested: FetchPartition
    ) -> None:
        """Begin as a partition that a request has named, without a watched replica."""
        self._session = session
        self.key = key
        self.requested = requested
        self.is_named = True
        # High watermark and log start offset.
        self.sent = (-1, -1)
        self.replica: Replica | None = None
        self.topic_partition: TopicPartition | None = None  # what the key was found to mean

    def watch(self, replica: Replica | None) -> None:
        """Observe `replica` instead of another."""
        if self.replica is not None and self.replica is not replica:
            self.replica.observers.pop(self, None)
        self.replica = replica
        if replica is not None:
            replica.observers[self] = None

    def notify(self, *, can_wait: bool = False) -> None:
        """See `ReplicaObserver`."""
        self._session.partition_changed(self, can_wait=can_wait)

    def overtaken(self, other: FollowerSession) -> None:
        """Note that another session set the position of this one's follower: the next request sets it again."""
        if other is not self._session and other.replica_id == self._session.replica_id:
            self._session.name_again(self)


class FollowerSession:
    """The session of one follower's connection."""

    def __init__(
        self,
        replica_id: BrokerId,
        session_id: int,
        connection: Connection,
        rounds: ReplicationRounds,
        *,
        by_topic_id: bool,
    ) -> None:
        """Serve no partition yet; `session_id` is NO_SESSION for one request only."""
        self.replica_id = replica_id
        self.connection = connection
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self._rounds = rounds
        self.epoch = 1  # what the next request must have
        self.activity = FollowerActivity()
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.counted = 0  # how many of them count against the bound of all sessions
        self.dirty: dict[SessionPartition, None] = {}
        self.waiting: DelayedFollowerFetch | None = None
        # Invariant: while a fetch waits, it fires no later than that fetch is to be answered.
        self._timer: asyncio.TimerHandle | None = None
        # True if the only changes are of high watermarks, which may wait for the next records.
        self.has_only_high_watermarks = False
        # Positions that the next request confirms without naming them.
        self._unconfirmed: dict[SessionPartition, None] = {}

    def mark_dirty(self, partition: SessionPartition) -> bool:
        """Mark a partition dirty for the next response; return whether it is still in the session.

        A partition that was removed while its records were read, or delayed by a throttle, would be answered without
        limit, by its last request: a follower that gets an old leader epoch stops following.
        """
        if self.partitions.get(partition.key) is not partition:
            return False
        self.dirty[partition] = None
        return True

    def partition_changed(self, partition: SessionPartition, *, can_wait: bool) -> None:
        """Mark a partition dirty, and answer the fetch that waits: at once, or soon where that can wait."""
        if self.mark_dirty(partition) and self.waiting is not None:
            if can_wait:
                self.waiting.wake_within(_HIGH_WATERMARK_WAIT_S)
            elif self._rounds.may_wait:
                self.waiting.wake_within(ROUND_S)
            else:
                self.waiting.wake()

    def add(self, key: PartitionKey, asked: FetchPartition) -> None:
        """Take what a request says of a partition; those named last are served last.

        A follower that asks again for the same offset may have dropped the last response, and gets all again.
        """
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = SessionPartition(self, key, asked)
        elif asked.fetch_offset <= partition.requested.fetch_offset:
            partition.sent = (-1, -1)
        partition.requested, partition.is_named = asked, True
        self.dirty.pop(partition, None)
        self.dirty[partition] = None

    def name_again(self, partition: SessionPartition) -> None:
        """Mark a partition: the next request confirms the follower's position there, though it need not name it.

        In Apache Kafka each request does so for all partitions of its session.
        """
        self._unconfirmed[partition] = None

    def take_request(self) -> None:
        """Note that a request came: the follower is where it said last."""
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        for partition in unconfirmed:
            partition.is_named |= self.mark_dirty(partition)

    def forget(self, key: PartitionKey) -> None:
        """Stop serving a partition."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.dirty.pop(partition, None)
            self._unconfirmed.pop(partition, None)
            partition.watch(None)

    def wake_at(self, time_s: float) -> None:
        """Check the fetch that waits at a time of the loop; one timer serves thousands of fetches."""
        if self._timer is not None:
            if self._timer.when() <= time_s:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(time_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        waiting = self.waiting
        if waiting is None:
            return
        if waiting.until > asyncio.get_running_loop().time():
            self.wake_at(waiting.until)
        else:
            waiting.wake()

    def end_without_id(self) -> None:
        """Close what lasts for one request only, when that is over."""
        if self.session_id == NO_SESSION:
            self.close()

    def close(self) -> None:
        """Release all partitions, and the fetch that waits."""
        for key in list(self.partitions):
            self.forget(key)
        if self.waiting is not None:
            self.waiting.wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class DelayedFollowerFetch(DeferredResponse):
    """A fetch without anything new to return; it waits until a partition is dirty, or its time is over."""

    def __init__(
        self,
        session: FollowerSession,
        max_wait_ms: int,
        respond: Callable[[], FetchResponse | EncodedResponse | SecondStage],
    ) -> None:
        """Wait in `session`; `respond` returns what there is then, be it nothing."""
        super().__init__()
        self._session = session
        self._respond = respond
        self._is_superseded = False
        now = asyncio.get_running_loop().time()
        wait_s = max_wait_ms / 1000
        if session.has_only_high_watermarks:
            wait_s = min(wait_s, _HIGH_WATERMARK_WAIT_S)
        self.until = now + wait_s
        """Time of the loop at which it is answered in any case."""
        session.waiting = self
        session.wake_at(self.until)

    def wake_within(self, wait_s: float) -> None:
        """Answer after a moment, together with what comes meanwhile."""
        soon = asyncio.get_running_loop().time() + wait_s
        if soon < self.until:
            self.until = soon
            self._session.wake_at(soon)

    def supersede(self) -> None:
        """Answer with nothing: the follower's next request of this session is here already."""
        self._is_superseded = True
        self.wake()

    def wake(self) -> None:
        """Answer in the next iteration of the loop."""
        self._detach()
        super().wake()

    def _detach(self) -> None:
        if self._session.waiting is self:
            self._session.waiting = None

    def release(self) -> None:
        """Leave the session: the connection is gone."""
        self._detach()
        self._session.end_without_id()

    def build(self) -> FetchResponse | EncodedResponse | SecondStage:
        """Respond with what there is, be it nothing."""
        if self._is_superseded:
            return FetchResponse(session_id=self._session.session_id)
        return self._respond()
