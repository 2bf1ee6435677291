"""The leader's side of followers' fetches.

A follower's session is kept as a list of what is *dirty*: partitions that the follower named, and those that were
touched since it last heard of them. Only these are looked at, so that a fetch of a thousand quiet partitions costs as
much as one of none, and an append wakes the fetch that waits for it within the same turn of the loop. What a follower
has is learnt from the offsets that it asks for; that moves the high watermark and lets it join the in-sync set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kavka.broker.dispatch import Parked, RequestContext
from kavka.broker.replica import Replica
from kavka.broker.replication.fetch_messages import (
    FIRST_BY_TOPIC_ID,
    forgotten_partitions,
    named_partitions,
)
from kavka.core.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    PartitionKey,
)
from kavka.core.partition import Pulse
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.net.connection import Connection
from kavka.storage.failures import CorruptFile, LogDirectoryFailed, OffsetOutOfRange
from kavka.storage.log_read import LogRead
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.broker.replication.both_sides import Replication

_LAST_EPOCH: Final = 2**31 - 1
_MOST_SESSIONS: Final = 64
_MARKS_WAIT_S: Final = 0.005


class _Watched:
    """One partition of a session: what was asked last, and what the follower was told."""

    __slots__ = ("_session", "asked", "is_named", "key", "replica", "told", "where")

    def __init__(self, session: _Session, key: PartitionKey, asked: FetchPartition) -> None:
        self._session = session
        self.key = key
        self.asked = asked
        self.is_named = True
        # High watermark and log start offset.
        self.told = (-1, -1)
        self.replica: Replica | None = None
        self.where: TopicPartition | None = None  # what the key was found to mean

    def watch(self, replica: Replica | None) -> None:
        """Be told of everything that happens to `replica`, and of nothing else any more."""
        if self.replica is not None and self.replica is not replica:
            self.replica.watchers.pop(self, None)
        self.replica = replica
        if replica is not None:
            replica.watchers[self] = None

    def touch(self, *, can_wait: bool = False) -> None:
        """See `Watcher`."""
        self._session.touched(self, can_wait=can_wait)


class _Session:
    """The session of one follower's connection."""

    def __init__(
        self, replica_id: BrokerId, session_id: int, connection: Connection, *, by_topic_id: bool
    ) -> None:
        self.replica_id = replica_id
        self.connection = connection
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = 1  # what the next request must have
        self.pulse = Pulse()
        self.partitions: dict[PartitionKey, _Watched] = {}
        self.dirty: dict[_Watched, None] = {}
        self.waiting: _Waiting | None = None
        # Whether the only news are of high watermarks, which may wait for the next records.
        self.has_marks_only = False

    def soil(self, watched: _Watched) -> bool:
        """Have a partition looked at for the next answer; tell whether it is served still.

        One that was forgotten while its records were read, or held back by a throttle, would be answered for ever, by
        what was asked of it last: a follower that is told of an old leader epoch gives up.
        """
        if self.partitions.get(watched.key) is not watched:
            return False
        self.dirty[watched] = None
        return True

    def touched(self, watched: _Watched, *, can_wait: bool) -> None:
        if self.soil(watched) and self.waiting is not None:
            if can_wait:
                self.waiting.wake_soon()
            else:
                self.waiting.wake()

    def name(self, key: PartitionKey, asked: FetchPartition) -> None:
        """Take what a request says of a partition; those named last are served last.

        Who asks again for the same offset may have dropped the last answer, and is told everything again.
        """
        watched = self.partitions.get(key)
        if watched is None:
            watched = self.partitions[key] = _Watched(self, key, asked)
        elif asked.fetch_offset <= watched.asked.fetch_offset:
            watched.told = (-1, -1)
        watched.asked, watched.is_named = asked, True
        self.dirty.pop(watched, None)
        self.dirty[watched] = None

    def forget(self, key: PartitionKey) -> None:
        """Serve a partition no longer."""
        watched = self.partitions.pop(key, None)
        if watched is not None:
            self.dirty.pop(watched, None)
            watched.watch(None)

    def end_without_id(self) -> None:
        """Close what lasts for one request only, when that is over."""
        if self.session_id == NO_SESSION:
            self.close()

    def close(self) -> None:
        """Let go of all partitions, and of the fetch that waits."""
        for key in list(self.partitions):
            self.forget(key)
        if self.waiting is not None:
            self.waiting.wake()


class _Waiting:
    """A fetch with nothing new to hear; it waits until something is touched, or its time is over."""

    def __init__(self, owner: FollowerFetches, session: _Session, request: FetchRequest) -> None:
        self._owner = owner
        self._session = session
        self._request = request
        self._is_superseded = False
        self.parked = Parked(self._make, self._release)
        loop = asyncio.get_running_loop()
        self._until = loop.time() + request.max_wait_ms / 1000
        self._timer = loop.call_at(self._until, self.wake)
        session.waiting = self
        if session.has_marks_only:
            self.wake_soon()

    def wake_soon(self) -> None:
        """Answer after a moment: records that come meanwhile take the high watermark with them."""
        loop = asyncio.get_running_loop()
        soon = loop.time() + _MARKS_WAIT_S
        if soon < self._until:
            self._until = soon
            self._timer.cancel()
            self._timer = loop.call_at(soon, self.wake)

    def supersede(self) -> None:
        """Answer with nothing: the follower's next request of this session is here already."""
        self._is_superseded = True
        self.wake()

    def wake(self) -> None:
        """Answer in the next turn of the loop."""
        self._leave()
        self.parked.wake()

    def _leave(self) -> None:
        self._timer.cancel()
        if self._session.waiting is self:
            self._session.waiting = None

    def _release(self) -> None:
        """The connection is gone."""
        self._leave()
        self._session.end_without_id()

    def _make(self) -> FetchResponse | Awaitable[FetchResponse]:
        if self._is_superseded:
            return FetchResponse(session_id=self._session.session_id)
        return self._owner.answer_now(self._session, self._request)


class _Read:
    """What was found for one partition: the answer, and the records where they are."""

    __slots__ = ("_cut_at", "answer", "read", "replica", "watched")

    def __init__(
        self,
        watched: _Watched,
        answer: FetchResponsePartition,
        read: LogRead | None = None,
        cut_at: int | None = None,
    ) -> None:
        self.watched = watched
        self.replica = watched.replica
        self.answer = answer
        self.read = read
        # How many bytes may be given; None when the first batch is whole in any case.
        self._cut_at = cut_at

    @property
    def has_no_room(self) -> bool:
        """Whether not even one batch may have fitted: the follower then asks the same again, and need not say so.

        The partition must be first in the next answer.
        """
        return (
            self._cut_at is not None and self.read is not None and self.read.length >= self._cut_at
        )

    @property
    def is_cold(self) -> bool:
        return self.read is not None and not self.read.is_cached

    def release(self) -> None:
        """Give up the records."""
        read, self.read = self.read, None
        if read is not None and read.range is not None:
            read.range.release()


class FollowerFetches:
    """Answers the fetches of brokers that follow."""

    def __init__(self, broker: Broker, replication: Replication) -> None:
        """Know no follower yet."""
        self._broker = broker
        self._replication = replication
        self._sessions: dict[int, _Session] = {}

    def handle(
        self, context: RequestContext, request: FetchRequest, replica_id: int
    ) -> FetchResponse | Parked | Awaitable[FetchResponse]:
        """Note how far the follower is, and answer with what is new for it, now or when there is anything."""
        session = self._session(context, request, BrokerId(replica_id))
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        if session.waiting is not None:
            session.waiting.supersede()
        session.pulse.last_ms = context.received_ms
        session.pulse.broker_epoch = request.replica_state.replica_epoch
        for key, asked in named_partitions(request):
            session.name(key, asked)
        reads = self._read_dirty(session, request, may_wait=True)
        if reads or request.max_wait_ms <= 0:
            return self._answer(session, reads)
        return _Waiting(self, session, request).parked

    def answer_now(
        self, session: _Session, request: FetchRequest
    ) -> FetchResponse | Awaitable[FetchResponse]:
        """Answer with what there is, be it nothing."""
        return self._answer(session, self._read_dirty(session, request))

    # -- sessions

    def _session(
        self, context: RequestContext, request: FetchRequest, replica_id: BrokerId
    ) -> _Session | ErrorCode:
        by_topic_id = context.version >= FIRST_BY_TOPIC_ID
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id, replica_id)
            session_id = NO_SESSION
            if request.session_epoch == INITIAL_EPOCH:
                session_id = self._new_id()
            session = _Session(replica_id, session_id, context.connection, by_topic_id=by_topic_id)
            if session_id != NO_SESSION:
                self._keep(session)
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

    def _new_id(self) -> int:
        while True:
            number = int.from_bytes(self._broker.chance.random_bytes(4)) & _LAST_EPOCH
            if number != NO_SESSION and number not in self._sessions:
                return number

    def _keep(self, session: _Session) -> None:
        """Keep a session; those whose connection is gone will not be continued.

        Neither a follower nor a connection may have more than some: who fetches need not be the broker that it names.
        """
        alive = self._broker.dispatcher.connections
        same = []
        for other in list(self._sessions.values()):
            if other.connection not in alive:
                self._close(other.session_id, other.replica_id)
            elif other.replica_id == session.replica_id or other.connection is session.connection:
                same.append(other)
        if len(same) >= _MOST_SESSIONS:
            self._close(same[0].session_id, same[0].replica_id)
        self._sessions[session.session_id] = session

    def _close(self, session_id: int, replica_id: BrokerId) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.replica_id == replica_id:
            del self._sessions[session_id]
            session.close()

    # -- answering

    def _answer(
        self, session: _Session, reads: list[_Read]
    ) -> FetchResponse | Awaitable[FetchResponse]:
        if any(read.is_cold for read in reads):
            return self._load(session, reads)
        return self._response(session, reads)

    async def _load(self, session: _Session, reads: list[_Read]) -> FetchResponse:
        """Bring cold records into the page cache, in the pool."""
        try:
            for read in reads:
                if read.is_cold:
                    await self._load_one(session, read)
        except BaseException:
            for read in reads:
                read.release()
            session.end_without_id()
            raise
        return self._response(session, reads)

    async def _load_one(self, session: _Session, read: _Read) -> None:
        assert read.read is not None
        cold, read.read = (
            read.read,
            None,
        )  # `load` owns the range now, and gives it or another one back
        read.answer.records = b""
        try:
            read.read = await cold.load(self._broker.host.disk)
            read.answer.records = read.read.range or b""
            if read.has_no_room:
                session.soil(read.watched)
        except OffsetOutOfRange:
            read.answer = _refusal(read.watched, ErrorCode.OFFSET_OUT_OF_RANGE)
        except OSError:
            read.answer = _refusal(read.watched, ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptFile as error:
            assert read.replica is not None
            read.answer = _refusal(read.watched, read.replica.met_damage(error))

    def _response(self, session: _Session, reads: list[_Read]) -> FetchResponse:
        topics: dict[str | bytes, FetchResponseTopic] = {}
        for read in reads:
            name = read.watched.key[0]
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
        self, session: _Session, request: FetchRequest, *, may_wait: bool = False
    ) -> list[_Read]:
        """Look at what is dirty; return what the follower must hear of. High watermarks may wait, if so."""
        session.has_marks_only = False
        marks: list[_Watched] | None = [] if may_wait else None
        now_ms = self._broker.clock.tick_ms()
        left = request.max_bytes
        reads: list[_Read] = []
        minimum_one = True
        for watched in list(session.dirty):
            if watched not in session.dirty:
                continue  # forgotten, or its session closed, by what happened here
            del session.dirty[watched]
            read = self._read(session, watched, left, now_ms, marks, minimum_one=minimum_one)
            if read is None:
                continue
            reads.append(read)
            length = 0 if read.read is None else read.read.length
            if length:
                minimum_one = False
                left = max(0, left - length)
        for mark in marks or ():
            if reads and mark.replica is not None:
                reads.append(_Read(mark, _tell(mark, mark.replica)))
            elif not reads and session.soil(mark):
                session.has_marks_only = True
        return reads

    def _read(
        self,
        session: _Session,
        watched: _Watched,
        left: int,
        now_ms: int,
        marks: list[_Watched] | None,
        *,
        minimum_one: bool,
    ) -> _Read | None:
        """Look at one partition; None when there is nothing to hear, or a high watermark that `marks` takes."""
        replica = self._find(watched)
        if isinstance(replica, ErrorCode):
            watched.watch(None)
            return self._refused(watched, replica)
        watched.watch(replica)
        asked, partition = watched.asked, replica.partition
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
            answer = _facts(watched, replica)
            answer.diverging_epoch = diverging
            watched.told = (-1, -1)
            return _Read(watched, answer)
        return self._read_log(
            session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
        )

    def _read_log(
        self,
        session: _Session,
        watched: _Watched,
        replica: Replica,
        left: int,
        now_ms: int,
        marks: list[_Watched] | None,
        *,
        minimum_one: bool,
    ) -> _Read | None:
        asked, partition = watched.asked, replica.partition
        end_offset = partition.log_end_offset
        is_throttled = self._replication.throttles_leader(replica, session.replica_id, now_ms)
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
            return self._refused(watched, replica.met_damage(error))
        if watched.is_named:
            watched.is_named = False
            self._note(session, watched, replica, now_ms)
        if is_throttled and asked.fetch_offset < end_offset:
            if partition.waits_for(session.replica_id, now_ms):  # since this fetch was noted
                return self._read_log(
                    session, watched, replica, left, now_ms, marks, minimum_one=minimum_one
                )
            self._replication.when_unthrottled(watched)
        may_be_cut = not minimum_one and not is_throttled and asked.fetch_offset < end_offset
        cut_at = wanted if may_be_cut else None
        if cut_at is not None and found.length >= cut_at and found.is_cached:
            session.soil(watched)  # first in the next answer
        if not found.length and found.is_cached:
            known_mark, known_start = watched.told
            mark, start = partition.high_watermark, replica.log.log_start_offset
            if start == known_start:
                if mark == known_mark:
                    return None
                if marks is not None and known_mark >= 0:
                    marks.append(watched)
                    return None
        answer = _tell(watched, replica)
        answer.records = found.range or b""
        _count(replica, session.replica_id, found.length)
        self._replication.note_served(replica, session.replica_id, found.length)
        return _Read(watched, answer, found, cut_at)

    def _note(self, session: _Session, watched: _Watched, replica: Replica, now_ms: int) -> None:
        """Learn from the fetch how far the follower is."""
        asked, partition = watched.asked, replica.partition
        follower = partition.followers[session.replica_id]
        if 0 <= session.pulse.broker_epoch < follower.broker_epoch:
            return  # what its former life had it need not have now (a fetch that was read late)
        follower.pulse = session.pulse
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
            self._broker.replicas.low_watermark_moved(replica.where)
        if change is not None:
            self._replication.propose(replica, change)

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

    def _find(self, watched: _Watched) -> Replica | ErrorCode:
        name, index = watched.key
        replicas = self._broker.replicas
        if watched.where is not None:
            found = replicas.find(watched.where)
            if isinstance(found, Replica) and (
                isinstance(name, str) or found.partition.topic_id == name
            ):
                return found
        if isinstance(name, str):
            watched.where = TopicPartition(name, index)
            return replicas.find(watched.where)
        topic = replicas.topic_of(TopicId(bytes(name)))
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        watched.where = TopicPartition(topic, index)
        replica = replicas.find(watched.where)
        if isinstance(replica, Replica) and replica.partition.topic_id not in (NO_TOPIC_ID, name):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return replica

    def _refused(self, watched: _Watched, code: ErrorCode) -> _Read:
        watched.told = (-1, -1)
        return _Read(watched, _refusal(watched, code))


def _count(replica: Replica, follower: BrokerId, size: int) -> None:
    traffic = replica.traffic
    traffic.fetch_requests += 1
    traffic.replication_bytes_out += size
    if follower in replica.partition.adding_replicas:
        traffic.reassignment_bytes_out += size


def _refusal(watched: _Watched, code: ErrorCode) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=watched.key[1],
        error_code=code,
        high_watermark=-1,
        records=b"",
    )


def _facts(watched: _Watched, replica: Replica) -> FetchResponsePartition:
    partition = replica.partition
    return FetchResponsePartition(
        partition_index=watched.key[1],
        error_code=ErrorCode.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=replica.log.log_start_offset,
        records=b"",
    )


def _tell(watched: _Watched, replica: Replica) -> FetchResponsePartition:
    """Say high watermark and log start, and remember that they were said."""
    answer = _facts(watched, replica)
    watched.told = (answer.high_watermark, answer.log_start_offset)
    return answer
