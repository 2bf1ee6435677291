"""The leader's side of followers' fetches.

Of a session only what is dirty is looked at (`follower_sessions`). What a follower has is learnt from the offsets that
it asks for; that moves the high watermark and lets it join the in-sync set.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.broker.pace import Pace
from kavka.broker.replica import Replica
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
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.core.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
)
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.storage.failures import CorruptFile, LogDirectoryFailed, OffsetOutOfRange
from kavka.storage.log.log_read import LogRead
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.broker.replication.replication_manager import ReplicationManager

_LAST_EPOCH: Final = 2**31 - 1
_MAX_SESSIONS: Final = 64
_PARTITIONS_SETTING: Final = "kavka.max.incremental.fetch.session.cache.partitions"
_AT_ONCE: Final = 256


class _Read:
    """The result for one partition: the response, and the range of its records."""

    __slots__ = ("_cut_at", "answer", "partition", "read", "replica")

    def __init__(
        self,
        partition: SessionPartition,
        answer: FetchResponsePartition,
        read: LogRead | None = None,
        cut_at: int | None = None,
    ) -> None:
        self.partition = partition
        self.replica = partition.replica
        self.answer = answer
        self.read = read
        # How many bytes may be given; None when the first batch is whole in any case.
        self._cut_at = cut_at

    @property
    def needs_space(self) -> bool:
        """Return whether not even one batch may fit: the follower then fetches the same again without naming it.

        The partition must be first in the next answer.
        """
        return (
            self._cut_at is not None and self.read is not None and self.read.length >= self._cut_at
        )

    @property
    def is_uncached(self) -> bool:
        return self.read is not None and not self.read.is_cached

    def release(self) -> None:
        """Give up the records."""
        read, self.read = self.read, None
        if read is not None and read.range is not None:
            read.range.release()


class FollowerFetchHandler:
    """Answers the fetches of brokers that follow."""

    def __init__(self, broker: Broker, replication_manager: ReplicationManager) -> None:
        """Know no follower yet."""
        self._broker = broker
        self._replication_manager = replication_manager
        self._sessions: dict[int, FollowerSession] = {}
        self._max_partitions = broker.config.integer(_PARTITIONS_SETTING)
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
        reads: list[_Read] = []
        try:
            await self._read_many(session, request, look_at, reads, pace)
            answer = self._answer(session, reads)
            return answer if isinstance(answer, FetchResponse) else await answer
        except BaseException:
            for partition in look_at:  # some were not looked at
                session.mark_dirty(partition)
            self._release(session, reads)
            raise

    async def _read_many(
        self,
        session: FollowerSession,
        request: FetchRequest,
        look_at: list[SessionPartition],
        reads: list[_Read],
        pace: Pace,
    ) -> None:
        """Look at partitions in slices of the loop's time, adding to `reads` what the follower must hear of."""
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
                left -= sum(read.read.length for read in some if read.read is not None)
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

        Who fetches need not be the broker that it names, so the partitions that it names may be anything.
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
            number = int.from_bytes(self._broker.random.random_bytes(4)) & _LAST_EPOCH
            if number != NO_SESSION and number not in self._sessions:
                return number

    def _add_session(self, session: FollowerSession) -> None:
        """Keep a session; those whose connection is gone will not be continued.

        Neither a follower nor a connection may have more than some: who fetches need not be the broker that it names.
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

    def _answer(self, session: FollowerSession, reads: list[_Read]) -> FetchResponse | SecondStage:
        if any(read.is_uncached for read in reads):
            load = self._load(session, reads)
            return SecondStage(load, lambda: self._release(session, reads))
        return self._response(session, reads)

    def _release(self, session: FollowerSession, reads: list[_Read]) -> None:
        """Give up an answer that is not sent; a session that goes on is sent it with the next."""
        for read in reads:
            read.release()
            read.partition.sent = (-1, -1)
            session.mark_dirty(read.partition)
        session.end_without_id()

    async def _load(self, session: FollowerSession, reads: list[_Read]) -> FetchResponse:
        """Bring cold records into the page cache, in the pool."""
        self._broker.request_budget.queue(1)
        try:
            for read in reads:
                if read.is_uncached:
                    await self._load_one(session, read)
        except BaseException:
            self._release(session, reads)
            raise
        finally:
            self._broker.request_budget.queue(-1)
        return self._response(session, reads)

    async def _load_one(self, session: FollowerSession, read: _Read) -> None:
        assert read.read is not None
        # `load` owns the range now, and gives it or another one back.
        cold, read.read = read.read, None
        read.answer.records = b""
        try:
            read.read = await cold.load(self._broker.environment.disk)
            read.answer.records = read.read.range or b""
            if read.needs_space:
                session.mark_dirty(read.partition)
        except OffsetOutOfRange:
            read.answer = _refusal(read.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        except OSError:
            read.answer = _refusal(read.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptFile as error:
            assert read.replica is not None
            read.answer = _refusal(read.partition, read.replica.damage_found(error))

    def _response(self, session: FollowerSession, reads: list[_Read]) -> FetchResponse:
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
            topic.partitions.append(read.answer)
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
    ) -> list[_Read]:
        """Look at what is dirty; return what the follower must hear of. High watermarks may wait, if so."""
        session.has_only_high_watermarks = False
        marks: list[SessionPartition] | None = [] if may_wait else None
        now_ms = self._broker.clock.tick_ms()
        left = request.max_bytes if left is None else max(0, left)
        reads: list[_Read] = []
        for partition in list(session.dirty):
            if partition not in session.dirty:
                continue  # forgotten, or its session closed, by what happened here
            del session.dirty[partition]
            read = self._read(session, partition, left, now_ms, marks, minimum_one=minimum_one)
            if read is None:
                continue
            reads.append(read)
            length = 0 if read.read is None else read.read.length
            if length:
                minimum_one = False
                left = max(0, left - length)
        for mark in marks or ():
            if reads and mark.replica is not None:
                reads.append(_Read(mark, _answer_partition(mark, mark.replica)))
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
    ) -> _Read | None:
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
        diverging = self._divergence(replica, asked)
        if isinstance(diverging, ErrorCode):
            return self._refused(watched, diverging)
        if diverging is not None:
            answer = _position_of(watched, replica)
            answer.diverging_epoch = diverging
            watched.sent = (-1, -1)
            return _Read(watched, answer)
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
    ) -> _Read | None:
        asked, partition = watched.requested, replica.partition
        end_offset = partition.log_end_offset
        is_throttled = self._replication_manager.throttles_leader(
            replica, session.replica_id, now_ms
        )
        wanted = 0 if is_throttled else min(asked.max_bytes, left)
        try:
            found = replica.log.read(
                asked.fetch_offset, wanted, end_offset, minimum_one and not is_throttled
            )
        except OffsetOutOfRange:
            return self._refused(watched, ErrorCode.OFFSET_OUT_OF_RANGE)
        except LogDirectoryFailed:
            return self._refused(watched, ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptFile as error:
            return self._refused(watched, replica.damage_found(error))
        if watched.is_named:
            watched.is_named = False
            self._record_position(session, watched, replica, now_ms)
        if is_throttled and asked.fetch_offset < end_offset:
            if partition.waits_for(session.replica_id, now_ms):  # since this fetch was noted
                return self._read_log(
                    session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
                )
            self._replication_manager.call_when_unthrottled(watched)
        may_be_cut = not minimum_one and not is_throttled and asked.fetch_offset < end_offset
        cut_at = wanted if may_be_cut else None
        if cut_at is not None and found.length >= cut_at and found.is_cached:
            session.mark_dirty(watched)  # first in the next answer
        if not found.length and found.is_cached:
            known_mark, known_start = watched.sent
            mark, start = partition.high_watermark, replica.log.log_start_offset
            if start == known_start:
                if mark == known_mark:
                    return None
                if marks is not None and known_mark >= 0:
                    marks.append(watched)
                    return None
        answer = _answer_partition(watched, replica)
        answer.records = found.range or b""
        _record_served(replica, session.replica_id, found.length)
        self._replication_manager.record_served(replica, session.replica_id, found.length)
        return _Read(watched, answer, found, cut_at)

    def _record_position(
        self, session: FollowerSession, watched: SessionPartition, replica: Replica, now_ms: int
    ) -> None:
        """Learn from the fetch how far the follower is."""
        asked, partition = watched.requested, replica.partition
        follower = partition.followers[session.replica_id]
        if 0 <= session.activity.broker_epoch < follower.broker_epoch:
            return  # what its former life had it need not have now (a fetch that was read late)
        follower.activity = session.activity
        had_start = follower.log_start_offset
        is_alive = session.replica_id in self._broker.metadata.brokers
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
            self._broker.replica_manager.low_watermark_moved(replica.topic_partition)
        if change is not None:
            self._replication_manager.propose(replica, change)

    def _divergence(
        self, replica: Replica, asked: FetchPartition
    ) -> FetchResponseDivergingEpoch | ErrorCode | None:
        if asked.last_fetched_epoch < 0:
            return None
        end = replica.log.log_end_offset
        epoch, end_offset = replica.log.epochs.end_offset_for(asked.last_fetched_epoch, end)
        if epoch < 0 or end_offset < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return FetchResponseDivergingEpoch(epoch=epoch, end_offset=end_offset)
        return None

    def _find(self, partition: SessionPartition) -> Replica | ErrorCode:
        name, index = partition.key
        replica_manager = self._broker.replica_manager
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

    def _refused(self, partition: SessionPartition, code: ErrorCode) -> _Read:
        partition.sent = (-1, -1)
        return _Read(partition, _refusal(partition, code))


def _record_served(replica: Replica, follower: BrokerId, size: int) -> None:
    traffic = replica.traffic
    traffic.fetch_requests += 1
    traffic.replication_bytes_out += size
    if follower in replica.partition.adding_replicas:
        traffic.reassignment_bytes_out += size


def _refusal(partition: SessionPartition, code: ErrorCode) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=partition.key[1],
        error_code=code,
        high_watermark=-1,
        records=b"",
    )


def _position_of(watched: SessionPartition, replica: Replica) -> FetchResponsePartition:
    partition = replica.partition
    return FetchResponsePartition(
        partition_index=watched.key[1],
        error_code=ErrorCode.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=replica.log.log_start_offset,
        records=b"",
    )


def _answer_partition(partition: SessionPartition, replica: Replica) -> FetchResponsePartition:
    """Say high watermark and log start, and remember that they were said."""
    answer = _position_of(partition, replica)
    partition.sent = (answer.high_watermark, answer.log_start_offset)
    return answer
