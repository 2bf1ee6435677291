"""The leader's side of followers' fetches.

Of a session only what is dirty is checked (`follower_sessions`). What a follower has is learnt from the offsets that
it asks for; that moves the high watermark and lets it join the in-sync set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.partition_read import PartitionRead, find_divergence, load_uncached
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.replication.fetch_messages import (
    FIRST_BY_TOPIC_ID,
    forgotten_partitions,
    named_partitions,
)
from kavka.broker.replication.follower_sessions import (
    DelayedFollowerFetch,
    FollowerSession,
    SessionPartition,
)
from kavka.broker.replication.throttle import LeaderThrottle
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.pace import Pace
from kavka.core.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
)
from kavka.core.partition import IsrChange
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.net.request_budget import RequestBudget
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseTopic,
)

_LAST_EPOCH: Final = 2**31 - 1
_MAX_SESSIONS: Final = 64
_PARTITIONS_SETTING: Final = "kavka.max.incremental.fetch.session.cache.partitions"
_AT_ONCE: Final = 256


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

        The partition must be first in the next answer.
        """
        return self.cut_at is not None and self.found is not None and self.length >= self.cut_at


class FollowerFetchHandler:
    """Answers the fetches of brokers that follow."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        throttle: LeaderThrottle,
        propose: Callable[[Replica, IsrChange], None],
        request_budget: RequestBudget,
    ) -> None:
        """Know no follower yet; `propose` asks the controller for another in-sync set."""
        self._context = context
        self._replica_manager = replica_manager
        self._throttle = throttle
        self._propose = propose
        self._request_budget = request_budget
        self._sessions: dict[int, FollowerSession] = {}
        self._max_partitions = context.config.integer(_PARTITIONS_SETTING)
        self._partition_count = 0  # Invariant: the sum of `counted` of all sessions

    def handle(
        self, context: RequestContext, request: FetchRequest, replica_id: int
    ) -> FetchResponse | DelayedFollowerFetch | SecondStage:
        """Note how far the follower is, and answer with what is new for it, now or when there is anything."""
        session = self._session(context, request, BrokerId(replica_id))
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        if session.waiting is not None:
            session.waiting.supersede()
        session.activity.last_fetch_ms = context.received_ms
        session.activity.broker_epoch = request.replica_state.replica_epoch
        session.take_request()
        if context.large is not None:
            return SecondStage(self._handle_many(session, request, context.pace))
        for key, asked in named_partitions(request):
            session.add(key, asked)
        self._count(session)
        reads = self._read_dirty(session, request, may_wait=True)
        if reads or request.max_wait_ms <= 0:
            return self._answer(session, reads)
        answer = partial(self._answer_now, session, request)
        return DelayedFollowerFetch(session, request.max_wait_ms, answer)

    async def _handle_many(
        self, session: FollowerSession, request: FetchRequest, pace: Pace
    ) -> FetchResponse:
        """Answer a fetch that names thousands of partitions: at once, in slices of the loop's time."""
        for key, asked in named_partitions(request):
            session.add(key, asked)
            if pace.is_over():
                await pace.rest()
        self._count(session)
        # What is dirty again by what happens here, or meanwhile, is for the next answer.
        look_at = list(session.dirty)
        session.dirty.clear()
        reads: list[FollowerRead] = []
        try:
            await self._read_many(session, request, look_at, reads, pace)
            answer = self._answer(session, reads)
            return answer if isinstance(answer, FetchResponse) else await answer
        except BaseException:
            for partition in look_at:  # some were not checked
                session.mark_dirty(partition)
            self._release(session, reads)
            raise

    async def _read_many(
        self,
        session: FollowerSession,
        request: FetchRequest,
        look_at: list[SessionPartition],
        reads: list[FollowerRead],
        pace: Pace,
    ) -> None:
        """Look at partitions in slices of the loop's time, adding to `reads` what the follower must learn of."""
        left = request.max_bytes
        later: dict[SessionPartition, None] = {}
        try:
            for at in range(0, len(look_at), _AT_ONCE):
                later |= session.dirty
                session.dirty.clear()
                for partition in look_at[at : at + _AT_ONCE]:
                    session.mark_dirty(partition)
                has_records = left < request.max_bytes
                some = self._read_dirty(session, request, left=left, minimum_one=not has_records)
                left -= sum(read.length for read in some)
                reads += some
                if pace.is_over(_AT_ONCE):
                    await pace.rest()
        finally:
            for partition in later:
                session.mark_dirty(partition)

    def _answer_now(
        self, session: FollowerSession, request: FetchRequest
    ) -> FetchResponse | SecondStage:
        """Answer with what there is, be it nothing."""
        return self._answer(session, self._read_dirty(session, request))

    # -- sessions

    def _session(
        self, context: RequestContext, request: FetchRequest, replica_id: BrokerId
    ) -> FollowerSession | ErrorCode:
        by_topic_id = context.version >= FIRST_BY_TOPIC_ID
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id, replica_id)
            session_id = NO_SESSION
            if request.session_epoch == INITIAL_EPOCH:
                session_id = self._new_id()
            session = FollowerSession(
                replica_id, session_id, context.connection, by_topic_id=by_topic_id
            )
            if session_id != NO_SESSION:
                self._add_session(session)
            return session
        known = self._sessions.get(request.session_id)
        if known is None or known.replica_id != replica_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        known.epoch = 1 if known.epoch == _LAST_EPOCH else known.epoch + 1
        for key in forgotten_partitions(request):
            known.forget(key)
        return known

    def _count(self, session: FollowerSession) -> None:
        """Count the partitions of a session that is kept; one that grows beyond the bound of all ends with its answer.

        The client need not be the broker that it names, so its partitions may be any.
        """
        if session.session_id == NO_SESSION:
            return
        growth = len(session.partitions) - session.counted
        self._partition_count += growth
        session.counted += growth
        if growth > 0 and self._partition_count > self._max_partitions:
            del self._sessions[session.session_id]
            self._partition_count -= session.counted
            session.session_id = NO_SESSION

    def _new_id(self) -> int:
        while True:
            number = int.from_bytes(self._context.random.random_bytes(4)) & _LAST_EPOCH
            if number != NO_SESSION and number not in self._sessions:
                return number

    def _add_session(self, session: FollowerSession) -> None:
        """Keep a session; sessions of closed connections will not be continued.

        Sessions per follower and per connection are bounded: the client need not be the broker that it names.
        """
        same = []
        for other in list(self._sessions.values()):
            if not other.connection.is_open:
                self._close(other.session_id, other.replica_id)
            elif other.replica_id == session.replica_id or other.connection is session.connection:
                same.append(other)
        if len(same) >= _MAX_SESSIONS:
            self._close(same[0].session_id, same[0].replica_id)
        self._sessions[session.session_id] = session

    def _close(self, session_id: int, replica_id: BrokerId) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.replica_id == replica_id:
            del self._sessions[session_id]
            self._partition_count -= session.counted
            session.close()

    # -- answering

    def _answer(
        self, session: FollowerSession, reads: list[FollowerRead]
    ) -> FetchResponse | SecondStage:
        if any(read.is_uncached for read in reads):
            load = self._load(session, reads)
            return SecondStage(load, lambda: self._release(session, reads))
        return self._response(session, reads)

    def _release(self, session: FollowerSession, reads: list[FollowerRead]) -> None:
        """Give up an answer that is not sent; a session that continues is sent it with the next."""
        for read in reads:
            read.release()
            read.partition.sent = (-1, -1)
            session.mark_dirty(read.partition)
        session.end_without_id()

    async def _load(self, session: FollowerSession, reads: list[FollowerRead]) -> FetchResponse:
        """Bring cold records into the page cache, in the pool."""
        cold = [read for read in reads if read.is_uncached]
        try:
            await load_uncached(cold, self._context.environment.disk, self._request_budget)
        except BaseException:
            self._release(session, reads)
            raise
        for read in cold:
            if read.needs_space:
                session.mark_dirty(read.partition)
        return self._response(session, reads)

    def _response(self, session: FollowerSession, reads: list[FollowerRead]) -> FetchResponse:
        topics: dict[str | bytes, FetchResponseTopic] = {}
        for read in reads:
            name = read.partition.key[0]
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = (
                    FetchResponseTopic(topic=name)
                    if isinstance(name, str)
                    else FetchResponseTopic(topic_id=TopicId(name))
                )
            topic.partitions.append(read.row(read.partition.key[1]))
        session.end_without_id()
        return FetchResponse(session_id=session.session_id, responses=list(topics.values()))

    # -- reading

    def _read_dirty(
        self,
        session: FollowerSession,
        request: FetchRequest,
        *,
        may_wait: bool = False,
        left: int | None = None,
        minimum_one: bool = True,
    ) -> list[FollowerRead]:
        """Look at what is dirty; return what the follower must learn of. High watermarks may wait, if so."""
        session.has_only_high_watermarks = False
        marks: list[SessionPartition] | None = [] if may_wait else None
        now_ms = self._context.clock.tick_ms()
        left = request.max_bytes if left is None else max(0, left)
        reads: list[FollowerRead] = []
        for partition in list(session.dirty):
            if partition not in session.dirty:
                continue  # forgotten, or its session closed, by what happened here
            del session.dirty[partition]
            read = self._read(session, partition, left, now_ms, marks, minimum_one=minimum_one)
            if read is None:
                continue
            reads.append(read)
            length = read.length
            if length:
                minimum_one = False
                left = max(0, left - length)
        for mark in marks or ():
            if reads and mark.replica is not None:
                reads.append(_position(mark, mark.replica))
            elif not reads and session.mark_dirty(mark):
                session.has_only_high_watermarks = True
        return reads

    def _read(
        self,
        session: FollowerSession,
        watched: SessionPartition,
        left: int,
        now_ms: int,
        marks: list[SessionPartition] | None,
        *,
        minimum_one: bool,
    ) -> FollowerRead | None:
        """Look at one partition; None when there is nothing to hear, or a high watermark that `marks` takes."""
        replica = self._find(watched)
        if isinstance(replica, ErrorCode):
            watched.watch(None)
            return self._refused(watched, replica)
        watched.watch(replica)
        asked, partition = watched.requested, replica.partition
        error = partition.check_leader(asked.current_leader_epoch)
        if error is ErrorCode.NONE and session.replica_id not in partition.followers:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        if error is not ErrorCode.NONE:
            return self._refused(watched, error)
        if asked.fetch_offset < replica.log.log_start_offset:
            return self._refused(watched, ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = find_divergence(replica, asked)
        if isinstance(diverging, ErrorCode):
            return self._refused(watched, diverging)
        if diverging is not None:
            read = _position(watched, replica)
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
        read = FollowerRead()
        read.partition = watched
        is_whole = minimum_one and not is_throttled
        if not read.read_log(replica, asked.fetch_offset, wanted, end_offset, is_whole):
            watched.sent = (-1, -1)
            return read
        if watched.is_named:
            watched.is_named = False
            self._record_position(session, watched, replica, now_ms)
        if is_throttled and asked.fetch_offset < end_offset:
            if partition.waits_for(session.replica_id, now_ms):  # since this fetch was noted
                return self._read_log(
                    session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
                )
            self._throttle.call_when_free(watched)
        may_be_cut = not minimum_one and not is_throttled and asked.fetch_offset < end_offset
        read.cut_at = wanted if may_be_cut else None
        if read.needs_space and not read.is_uncached:
            session.mark_dirty(watched)  # first in the next answer
        if not read.length and not read.is_uncached:
            known_mark, known_start = watched.sent
            mark, start = partition.high_watermark, replica.log.log_start_offset
            if start == known_start:
                if mark == known_mark:
                    return None
                if marks is not None and known_mark >= 0:
                    marks.append(watched)
                    return None
        read.take_position(replica)
        watched.sent = (read.high_watermark, read.log_start_offset)
        _record_served(replica, session.replica_id, read.length)
        self._throttle.record_served(replica, session.replica_id, read.length)
        return read

    def _record_position(
        self, session: FollowerSession, watched: SessionPartition, replica: Replica, now_ms: int
    ) -> None:
        """Learn from the fetch how far the follower is."""
        asked, partition = watched.requested, replica.partition
        follower = partition.followers[session.replica_id]
        if 0 <= session.activity.broker_epoch < follower.broker_epoch:
            session.name_again(watched)
            return  # what its former life had it need not have now (a fetch that was read late)
        if follower.activity is not session.activity:
            # This fetch may be the late one, of a connection that the follower gave up.
            for watcher in replica.watchers:
                if isinstance(watcher, SessionPartition):
                    watcher.overtaken(session)
        follower.activity = session.activity
        had_start = follower.log_start_offset
        is_alive = session.replica_id in self._context.metadata.brokers
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

    def _refused(self, partition: SessionPartition, code: ErrorCode) -> FollowerRead:
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


def _position(watched: SessionPartition, replica: Replica) -> FollowerRead:
    """Say high watermark and log start offset, and remember that they were said."""
    read = FollowerRead.of(replica)
    read.partition = watched
    watched.sent = (read.high_watermark, read.log_start_offset)
    return read
