"""A leader's reads for its followers: the log of one partition, and what the fetch says of the follower.

What a follower has is learnt from the offsets that it asks for; that moves the high watermark and lets it join the
in-sync set.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.partition_read import PartitionRead, find_divergence
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.replication.follower_sessions import FollowerSession, SessionPartition
from kavka.broker.replication.throttle import LeaderThrottle
from kavka.core.partition import IsrChange
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition


class FollowerRead(PartitionRead):
    """The outcome of a follower's fetch for a partition of its session."""

    __slots__ = ("cut_at", "partition")

    partition: SessionPartition

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Find an error, or nothing yet."""
        super().__init__(error)
        self.cut_at: int | None = None
        """Number of bytes that may be given; None when the first batch is whole in any case."""

    @property
    def needs_space(self) -> bool:
        """Return whether not even one batch may fit: the follower then fetches the same again without naming it.

        The partition must be first in the next response.
        """
        return self.cut_at is not None and self.found is not None and self.length >= self.cut_at


class FollowerReader:
    """Reads the partitions of followers' sessions, and notes how far the followers are."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        throttle: LeaderThrottle,
        propose: Callable[[Replica, IsrChange], None],
    ) -> None:
        """Take the parts of the broker that are read from; `propose` asks the controller for another in-sync set."""
        self._metadata = context.metadata
        self._replica_manager = replica_manager
        self._throttle = throttle
        self._propose = propose

    def read(
        self,
        session: FollowerSession,
        watched: SessionPartition,
        left: int,
        now_ms: int,
        marks: list[SessionPartition] | None,
        *,
        minimum_one: bool,
    ) -> FollowerRead | None:
        """Read one partition; None when there is nothing new, or only a high watermark, which `marks` takes."""
        replica = self._find(watched)
        if isinstance(replica, ErrorCode):
            watched.watch(None)
            return _refused(watched, replica)
        watched.watch(replica)
        asked, partition = watched.requested, replica.partition
        error = partition.check_leader(asked.current_leader_epoch)
        if error is ErrorCode.NONE and session.replica_id not in partition.followers:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        if error is not ErrorCode.NONE:
            return _refused(watched, error)
        if asked.fetch_offset < replica.log.log_start_offset:
            return _refused(watched, ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = find_divergence(replica, asked)
        if isinstance(diverging, ErrorCode):
            return _refused(watched, diverging)
        if diverging is not None:
            read = position_read(watched, replica)
            read.diverging = diverging
            watched.sent = (-1, -1)
            return read
        return self._read_log(
            session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
        )

    def _read_log(
        self,
        session: FollowerSession,
        watched: SessionPartition,
        replica: Replica,
        left: int,
        now_ms: int,
        marks: list[SessionPartition] | None,
        *,
        minimum_one: bool,
    ) -> FollowerRead | None:
        asked, partition = watched.requested, replica.partition
        end_offset = partition.log_end_offset
        is_throttled = self._throttle.throttles(replica, session.replica_id, now_ms)
        wanted = 0 if is_throttled else min(asked.max_bytes, left)
        if asked.fetch_offset == end_offset and replica.log.is_readable:
            self._confirm(session, watched, replica, now_ms)
            return _position_if_new(session, watched, replica, marks)
        read = FollowerRead()
        read.partition = watched
        is_whole = minimum_one and not is_throttled
        if not read.read_log(replica, asked.fetch_offset, wanted, end_offset, is_whole):
            watched.sent = (-1, -1)
            return read
        self._confirm(session, watched, replica, now_ms)
        if is_throttled and asked.fetch_offset < end_offset:
            if partition.waits_for(session.replica_id, now_ms):  # since this fetch was noted
                return self._read_log(
                    session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
                )
            self._throttle.call_when_free(watched)
        may_be_cut = not minimum_one and not is_throttled and asked.fetch_offset < end_offset
        read.cut_at = wanted if may_be_cut else None
        if read.needs_space and not read.is_uncached:
            session.mark_dirty(watched)  # first in the next response
        if not read.length and not read.is_uncached:
            return _position_if_new(session, watched, replica, marks)
        read.take_position(replica)
        watched.sent = (read.high_watermark, read.log_start_offset)
        _record_served(replica, session.replica_id, read.length)
        self._throttle.record_served(replica, session.replica_id, read.length)
        return read

    def _confirm(
        self, session: FollowerSession, watched: SessionPartition, replica: Replica, now_ms: int
    ) -> None:
        """Record how far the follower is, once for each request that says so."""
        if watched.is_named:
            watched.is_named = False
            self._record_position(session, watched, replica, now_ms)

    def _record_position(
        self, session: FollowerSession, watched: SessionPartition, replica: Replica, now_ms: int
    ) -> None:
        """Record how far the follower is, as its fetch shows."""
        asked, partition = watched.requested, replica.partition
        follower = partition.followers[session.replica_id]
        if 0 <= session.activity.broker_epoch < follower.broker_epoch:
            session.name_again(watched)
            return  # what its former life had it need not have now (a fetch that was read late)
        if follower.activity is not session.activity:
            # This fetch may be the late one, of a connection that the follower gave up.
            for observer in replica.observers:
                if isinstance(observer, SessionPartition):
                    observer.overtaken(session)
        follower.activity = session.activity
        had_start = follower.log_start_offset
        is_alive = session.replica_id in self._metadata.brokers
        has_moved, change = partition.follower_fetched(
            session.replica_id,
            asked.fetch_offset,
            now_ms,
            asked.log_start_offset,
            is_alive=is_alive,
        )
        if has_moved:
            replica.high_watermark_moved()
        elif asked.log_start_offset != had_start:
            self._replica_manager.low_watermark_moved(replica)
        if change is not None:
            self._propose(replica, change)

    def _find(self, partition: SessionPartition) -> Replica | ErrorCode:
        name, index = partition.key
        replica_manager = self._replica_manager
        if partition.topic_partition is not None:
            found = replica_manager.find(partition.topic_partition)
            if isinstance(found, Replica) and (
                isinstance(name, str) or found.partition.topic_id == name
            ):
                return found
        if isinstance(name, str):
            partition.topic_partition = TopicPartition(name, index)
            return replica_manager.find(partition.topic_partition)
        topic = replica_manager.topic_of(TopicId(bytes(name)))
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition.topic_partition = TopicPartition(topic, index)
        replica = replica_manager.find(partition.topic_partition)
        if isinstance(replica, Replica) and replica.partition.topic_id not in (NO_TOPIC_ID, name):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return replica


def _refused(partition: SessionPartition, code: ErrorCode) -> FollowerRead:
    partition.sent = (-1, -1)
    read = FollowerRead(code)
    read.partition = partition
    return read


def _record_served(replica: Replica, follower: BrokerId, size: int) -> None:
    traffic = replica.traffic
    traffic.fetch_requests += 1
    traffic.replication_bytes_out += size
    if follower in replica.partition.adding_replicas:
        traffic.reassignment_bytes_out += size


def _position_if_new(
    session: FollowerSession,
    watched: SessionPartition,
    replica: Replica,
    marks: list[SessionPartition] | None,
) -> FollowerRead | None:
    """Return where the partition is, without records; None when the follower knows it, or `marks` takes it."""
    known_mark, known_start = watched.sent
    if known_start == replica.log.log_start_offset:
        if known_mark == replica.partition.high_watermark:
            return None
        if marks is not None and known_mark >= 0:
            marks.append(watched)
            return None
    _record_served(replica, session.replica_id, 0)
    return position_read(watched, replica)


def position_read(watched: SessionPartition, replica: Replica) -> FollowerRead:
    """Return the high watermark and the log start offset of a partition, noted as sent."""
    read = FollowerRead.of(replica)
    read.partition = watched
    watched.sent = (read.high_watermark, read.log_start_offset)
    return read
