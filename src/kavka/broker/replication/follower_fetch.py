"""The leader's side of followers' fetches: which partitions are read, and when the response leaves.

Of a session only what is dirty is checked (`follower_sessions`); `follower_session_cache` keeps the sessions,
`follower_reader` reads a partition and notes how far the follower is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.partition_read import load_uncached
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.partitions.replication_rounds import ReplicationRounds
from kavka.broker.partitions.short_responses import encode_short, read_short
from kavka.broker.replication.fetch_messages import (
    named_partitions,
)
from kavka.broker.replication.follower_reader import FollowerRead, FollowerReader, position_read
from kavka.broker.replication.follower_session_cache import FollowerSessionCache
from kavka.broker.replication.follower_sessions import (
    DelayedFollowerFetch,
    FollowerSession,
    SessionPartition,
)
from kavka.broker.replication.throttle import LeaderThrottle
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.pace import Pace
from kavka.core.partition import IsrChange
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicId
from kavka.net.request_budget import RequestBudget
from kavka.wire.frame import EncodedResponse
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseTopic,
)

_AT_ONCE: Final = 256


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
        """Begin without sessions; `propose` asks the controller for another in-sync set."""
        self._context = context
        self._request_budget = request_budget
        replica_manager.rounds = rounds = ReplicationRounds()
        self.sessions = FollowerSessionCache(context, rounds)
        self._reader = FollowerReader(context, replica_manager, throttle, propose)

    def handle(
        self, context: RequestContext, request: FetchRequest, replica_id: int
    ) -> FetchResponse | EncodedResponse | DelayedFollowerFetch | SecondStage:
        """Note how far the follower is, and answer with what is new for it, now or when there is anything."""
        session = self.sessions.begin(context, request, BrokerId(replica_id))
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
        self.sessions.count(session)
        reads = self._read_dirty(session, request, may_wait=True)
        if reads or request.max_wait_ms <= 0:
            return self._encoded(context, session, reads) or self._respond(session, reads)
        respond = partial(self._respond_now, context, session, request)
        return DelayedFollowerFetch(session, request.max_wait_ms, respond)

    async def _handle_many(
        self, session: FollowerSession, request: FetchRequest, pace: Pace
    ) -> FetchResponse:
        """Answer a fetch that names thousands of partitions: at once, in slices of the loop's time."""
        for key, asked in named_partitions(request):
            session.add(key, asked)
            if pace.is_over():
                await pace.rest()
        self.sessions.count(session)
        # What is dirty again by what happens here, or meanwhile, is for the next response.
        look_at = list(session.dirty)
        session.dirty.clear()
        reads: list[FollowerRead] = []
        try:
            await self._read_many(session, request, look_at, reads, pace)
            result = self._respond(session, reads)
            return result if isinstance(result, FetchResponse) else await result
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
        """Read partitions in time slices, adding to `reads` what the response must have."""
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

    def _respond_now(
        self, context: RequestContext, session: FollowerSession, request: FetchRequest
    ) -> FetchResponse | EncodedResponse | SecondStage:
        """Answer with what there is, be it nothing."""
        reads = self._read_dirty(session, request)
        return self._encoded(context, session, reads) or self._respond(session, reads)

    # -- answering

    def _respond(
        self, session: FollowerSession, reads: list[FollowerRead]
    ) -> FetchResponse | SecondStage:
        if any(read.is_uncached for read in reads):
            load = self._load(session, reads)
            return SecondStage(load, lambda: self._release(session, reads))
        return self._response(session, reads)

    def _encoded(
        self, context: RequestContext, session: FollowerSession, reads: list[FollowerRead]
    ) -> EncodedResponse | None:
        """Return a short response without errors as bytes; None leaves all as it is for another way."""
        if not read_short(context.version, reads):
            return None
        session.end_without_id()
        rows = [(read.partition.key, read) for read in reads]
        correlation_id = context.header.correlation_id
        return encode_short(context.version, correlation_id, session.session_id, rows)

    def _release(self, session: FollowerSession, reads: list[FollowerRead]) -> None:
        """Release a response that is not sent; a session that continues is sent it with the next."""
        for read in reads:
            read.release()
            read.partition.sent = (-1, -1)
            session.mark_dirty(read.partition)
        session.end_without_id()

    async def _load(self, session: FollowerSession, reads: list[FollowerRead]) -> FetchResponse:
        """Load cold records into the page cache, in the pool."""
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
        """Read the dirty partitions; return what the response must have. High watermarks alone may wait, if so."""
        session.has_only_high_watermarks = False
        marks: list[SessionPartition] | None = [] if may_wait else None
        now_ms = self._context.clock.tick_ms()
        left = request.max_bytes if left is None else max(0, left)
        reads: list[FollowerRead] = []
        read_partition = self._reader.read
        for partition in list(session.dirty):
            if partition not in session.dirty:
                continue  # forgotten, or its session closed, by what happened here
            del session.dirty[partition]
            read = read_partition(session, partition, left, now_ms, marks, minimum_one=minimum_one)
            if read is None:
                continue
            reads.append(read)
            length = read.length
            if length:
                minimum_one = False
                left = max(0, left - length)
        for mark in marks or ():
            if reads and mark.replica is not None:
                reads.append(position_read(mark, mark.replica))
            elif not reads and session.mark_dirty(mark):
                session.has_only_high_watermarks = True
        return reads
