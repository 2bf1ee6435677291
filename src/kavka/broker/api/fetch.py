"""Fetch: batches from the logs, answered when there are enough bytes or the wait is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.broker.fetch.fetch_reader import ConsumerRead, FetchReader, ReadableLogs
from kavka.broker.lazy import Lazy
from kavka.broker.partitions.short_responses import encode_short, read_short
from kavka.broker.quotas.quota_manager import QuotaManager
from kavka.broker.replication.fetch_messages import (
    FIRST_BY_TOPIC_ID,
    forgotten_partitions,
    named_partitions,
)
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import DeferredResponse, SecondStage
from kavka.broker.requests.pace import Pace, Slices
from kavka.broker.requests.purgatory import Purgatory
from kavka.core.fetch_session import (
    FetchContext,
    FetchOutcome,
    FetchPartition,
    FetchSessionCache,
    FetchSessionResult,
    PartitionKey,
)
from kavka.errors import ErrorCode
from kavka.ids import TopicId
from kavka.io import Random
from kavka.wire.frame import EncodedResponse
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.partitions.current_leaders import CurrentLeaders
    from kavka.broker.quotas.client_quotas import ClientQuotas
    from kavka.broker.replication.replication_manager import ReplicationManager

_PARTITION_BYTES: Final = 64
"""Bytes of a partition in a response besides its records, about."""
_MANY_PARTITIONS: Final = 64
"""More are read in slices of the loop's time: one takes 5 to 10 us, and a thousand clients may ask at the same time."""


class Handler:
    """Fetch: reads, waits for bytes, and keeps the sessions of consumers."""

    def __init__(
        self,
        random: Random,
        slices: Slices,
        quotas: QuotaManager,
        readable_logs: ReadableLogs,
        fetch_sessions: FetchSessionCache,
        fetch_purgatory: Purgatory,
        current_leaders: Lazy[CurrentLeaders],
        replication_manager: Lazy[ReplicationManager],
    ) -> None:
        """Take the parts that it works with."""
        self._random = random
        self._slices = slices
        self._quotas = quotas
        self._fetch_sessions = fetch_sessions
        self.purgatory = fetch_purgatory
        """Fetches that wait for records."""
        self._current_leaders = current_leaders
        self._replication_manager = replication_manager
        self._logs = readable_logs

    def handle(
        self, context: RequestContext, request: FetchRequest
    ) -> FetchResponse | EncodedResponse | DeferredResponse | SecondStage:
        """Begin or continue a session, read, and wait when there is too little."""
        by_id = context.version >= FIRST_BY_TOPIC_ID
        replica_id = (
            request.replica_id if context.version < 15 else request.replica_state.replica_id
        )
        if replica_id >= 0:
            if not context.may_act_in_cluster():
                return SecondStage(_unauthorized(context, request))
            return self._replication_manager.get().followers.handle(context, request, replica_id)
        quotas = self._quotas.client_quotas
        if quotas is not None and (max_bytes := quotas.max_fetch_bytes(context)) is not None:
            request.max_bytes = min(request.max_bytes, max_bytes)
        if context.large is not None:
            return SecondStage(self._handle_many(context, request))
        session = self._fetch_sessions.begin(
            request.session_id,
            request.session_epoch,
            dict(named_partitions(request)),
            list(forgotten_partitions(request)),
            by_topic_id=by_id,
            is_follower=False,
            now_ms=context.received_ms,
        )
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        if len(session) > _MANY_PARTITIONS:
            context.pace = self._slices.pace()
            return SecondStage(self._fetch_many(context, request, session))
        reader = FetchReader(
            self._logs, request, context.version, session.partitions(), _restricted(context)
        )
        reads = reader.read()
        is_short = read_short(context.version, reads)
        if not is_short and any(read.is_uncached for read in reads):
            return self._load_later(context, request, session, reader, reads)
        if _is_enough(request, reader, reads):
            return self._response(context, request, session, reads, is_short=is_short)
        have = sum(read.length for read in reads)
        reader.release(reads)
        # All is in the session: it may wait long.
        request.topics, request.forgotten_topics_data = [], []
        return _DelayedFetch(self, context, request, session, reader, have)

    async def _handle_many(
        self, context: RequestContext, request: FetchRequest
    ) -> FetchResponse | DeferredResponse:
        """Handle a large request as `handle` does, in time slices."""
        pace = context.pace
        named: dict[PartitionKey, FetchPartition] = {}
        for key, asked in named_partitions(request):
            named[key] = asked
            if pace.is_over():
                await pace.rest()
        session = self._fetch_sessions.begin(
            request.session_id,
            request.session_epoch,
            named,
            list(forgotten_partitions(request)),
            by_topic_id=context.version >= FIRST_BY_TOPIC_ID,
            is_follower=False,
            now_ms=context.received_ms,
        )
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        return await self._fetch_many(context, request, session)

    async def _fetch_many(
        self, context: RequestContext, request: FetchRequest, session: FetchContext
    ) -> FetchResponse | DeferredResponse:
        """Read many partitions, and wait when there is too little, in slices of the loop's time."""
        pace = context.pace
        request.topics, request.forgotten_topics_data = [], []  # all is in the session
        await pace.rest_if_over()
        reader = FetchReader(
            self._logs, request, context.version, session.partitions(), _restricted(context)
        )
        await pace.rest_if_over()
        before = reader.appended_bytes()
        reads = await reader.read_at(pace)
        if any(read.is_uncached for read in reads) or _is_enough(request, reader, reads):
            return await self._load_and_respond(context, request, session, reader, reads)
        have = sum(read.length for read in reads)
        reader.release(reads)
        # What was appended between two slices wakes nothing.
        if reader.appended_bytes() - before >= max(1, reader.min_bytes - have):
            return await self._read_and_respond(context, request, session, reader)
        return _DelayedFetch(self, context, request, session, reader, have, before)

    def respond_after_wait(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
    ) -> FetchResponse | EncodedResponse | SecondStage:
        """Read again, and respond with the available records."""
        if context.is_paced:
            return SecondStage(self._read_and_respond(context, request, session, reader))
        reads = reader.read()
        is_short = read_short(context.version, reads)
        if not is_short and any(read.is_uncached for read in reads):
            return self._load_later(context, request, session, reader, reads)
        return self._response(context, request, session, reads, is_short=is_short)

    async def _read_and_respond(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
    ) -> FetchResponse:
        """Read many partitions again, after the wait, and respond with the available records."""
        await context.pace.rest_if_over()
        reads = await reader.read_at(context.pace)
        return await self._load_and_respond(context, request, session, reader, reads)

    async def _load_and_respond(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
        reads: list[ConsumerRead],
    ) -> FetchResponse:
        """Load what is not in the page cache, then build the response in time slices."""
        try:
            if any(read.is_uncached for read in reads):
                await reader.load(reads)
            return await self._response_at(context, request, session, reads, context.pace)
        except BaseException:
            reader.release(reads)
            raise

    def _load_later(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
        reads: list[ConsumerRead],
    ) -> SecondStage:
        load = self._load(context, request, session, reader, reads)
        return SecondStage(load, lambda: reader.release(reads))

    async def _load(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
        reads: list[ConsumerRead],
    ) -> FetchResponse | EncodedResponse:
        """Load what is not in the page cache, in the pool, then answer."""
        await reader.load(reads)
        return self._response(context, request, session, reads)

    def _response(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reads: list[ConsumerRead],
        *,
        is_short: bool = False,
    ) -> FetchResponse | EncodedResponse:
        """Return the response of what was read; `is_short` if `read_short` has read it."""
        if self._quotas.client_quotas is not None and _is_throttled(
            self._quotas.client_quotas, context, reads
        ):
            return _throttled(session, reads)
        result = self._finish(context, session, reads)
        included = set(result.partitions)
        if is_short and not result.error_code and not _is_special(reads):
            return _encoded(context, request, result, included, reads)
        topics: dict[str | bytes, FetchResponseTopic] = {}
        for read in reads:
            _add(topics, request, read, is_included=read.key in included)
        return self._headed(context, result, topics, reads)

    async def _response_at(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reads: list[ConsumerRead],
        pace: Pace,
    ) -> FetchResponse:
        """Return what `_response` does, in time slices."""
        await pace.rest_if_over()
        if self._quotas.client_quotas is not None and _is_throttled(
            self._quotas.client_quotas, context, reads
        ):
            return _throttled(session, reads)
        result = self._finish(context, session, reads)
        await pace.rest_if_over()
        included = set(result.partitions)
        topics: dict[str | bytes, FetchResponseTopic] = {}
        for read in reads:
            _add(topics, request, read, is_included=read.key in included)
            if pace.is_over():
                await pace.rest()
        return self._headed(context, result, topics, reads)

    def _finish(
        self, context: RequestContext, session: FetchContext, reads: list[ConsumerRead]
    ) -> FetchSessionResult:
        outcomes: dict[PartitionKey, FetchOutcome] = {read.key: read.outcome for read in reads}
        candidate = 0
        if session.makes_session:
            candidate = int.from_bytes(self._random.random_bytes(4)) & 0x7FFFFFFF
        return session.finish(outcomes, candidate, context.received_ms)

    def _headed(
        self,
        context: RequestContext,
        result: FetchSessionResult,
        topics: dict[str | bytes, FetchResponseTopic],
        reads: list[ConsumerRead],
    ) -> FetchResponse:
        response = FetchResponse(
            error_code=result.error_code,
            session_id=result.session_id,
            responses=list(topics.values()),
        )
        if any(read.error for read in reads):
            self._current_leaders.get().add_to_fetch(
                context.listener_name, context.version, response
            )
        return response


def _restricted(context: RequestContext) -> RequestContext | None:
    """Return the context as the judge of what may be read; None when everything may."""
    return None if context.authorizer is None else context


async def _unauthorized(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """Refuse the fetch of a follower that may not act in the cluster: each of its topics, as Apache Kafka."""
    if request.session_id and not request.topics:
        # It was allowed before: it has to name its partitions to hear it.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    topics = []
    for asked in request.topics:
        topic = FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id)
        topics.append(topic)
        for row in asked.partitions:
            refused = FetchResponsePartition(
                partition_index=row.partition,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                high_watermark=-1,
                records=b"",
            )
            topic.partitions.append(refused)
            if context.pace.is_over():
                await context.pace.rest()
    return FetchResponse(responses=topics)


def _is_enough(request: FetchRequest, reader: FetchReader, reads: list[ConsumerRead]) -> bool:
    """Return whether to answer now: enough bytes, or as many as there can be, an error, or nothing to wait for."""
    if request.max_wait_ms <= 0 or not reads:
        return True
    total = 0
    for read in reads:
        if read.is_final:
            return True
        total += read.length
    return total >= reader.min_bytes


class _DelayedFetch(DeferredResponse):
    """A fetch that waits until its partitions have grown by enough bytes, or its time is over.

    The wait is registered in the first stage: what is appended after the read wakes this fetch too.
    """

    __slots__ = (
        "_before",
        "_context",
        "_handler",
        "_reader",
        "_request",
        "_session",
        "_ticket",
        "_wanted",
    )

    def __init__(
        self,
        handler: Handler,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext,
        reader: FetchReader,
        have: int,
        before: int | None = None,
    ) -> None:
        """Begin to wait; `have` bytes were there, when `before` had been appended, now if that is not given."""
        super().__init__()
        self._handler = handler
        self._context = context
        self._request = request
        self._session = session
        self._reader = reader
        self._wanted = reader.min_bytes - have
        # Where each change of a partition is worth a response, bytes are not counted.
        if before is None and self._wanted > 1:
            before = reader.appended_bytes()
        self._before = before or 0
        self._ticket = handler.purgatory.wait(reader.topic_partitions(), request.max_wait_ms, self)

    def is_complete(self) -> bool:
        """Return whether to respond, now that one of the partitions has changed."""
        if self._request.isolation_level:
            return self._is_committed_enough()
        if self._wanted <= 1:
            return True  # each change of a partition is worth a response
        return self._reader.appended_bytes() - self._before >= self._wanted

    def _is_committed_enough(self) -> bool:
        """Return whether enough is decided: appends in open transactions do not complete the fetch."""
        if self._reader.awaits_markers():
            return False
        if self._wanted <= 1:
            return True
        reads = self._reader.read()
        is_enough = any(read.is_uncached for read in reads) or _is_enough(
            self._request, self._reader, reads
        )
        self._reader.release(reads)
        return is_enough

    def release(self) -> None:
        """Leave the purgatory."""
        if self._ticket is not None:
            self._handler.purgatory.cancel(self._ticket)

    def build(self) -> FetchResponse | EncodedResponse | SecondStage:
        """Read again, and respond with the available records."""
        return self._handler.respond_after_wait(
            self._context, self._request, self._session, self._reader
        )


def _is_throttled(
    quotas: ClientQuotas, context: RequestContext, reads: Sequence[ConsumerRead]
) -> bool:
    """Charge the records that were found; return whether a quota forbids to send them now."""
    size = sum(read.length + _PARTITION_BYTES for read in reads if read.length)
    charge = quotas.charge_fetch(context, size)
    context.throttle_ms = max(context.throttle_ms, charge.throttle_ms)
    return charge.is_refused


def _throttled(session: FetchContext, reads: Sequence[ConsumerRead]) -> FetchResponse:
    """Return the response without records of a client that is throttled."""
    for read in reads:
        read.release()
    result = session.refuse()
    return FetchResponse(error_code=result.error_code, session_id=result.session_id)


def _is_special(reads: Sequence[ConsumerRead]) -> bool:
    """Return whether the response says more of a partition than its records and where it is."""
    return any(read.aborted or read.preferred_read_replica >= 0 for read in reads)


def _encoded(
    context: RequestContext,
    request: FetchRequest,
    result: FetchSessionResult,
    included: set[PartitionKey],
    reads: Sequence[ConsumerRead],
) -> EncodedResponse:
    """Count what was read, and return a short response."""
    rows = []
    for read in reads:
        _count(read)
        if read.key in included:
            rows.append((read.key, read))
        else:
            read.release()
    return encode_short(
        context.version,
        context.header.correlation_id,
        result.session_id,
        rows,
        names_aborted=request.isolation_level != 0,
    )


def _count(read: ConsumerRead) -> None:
    """Count what was read in the metrics of its topic."""
    if read.replica is not None:
        traffic = read.replica.traffic
        traffic.fetch_requests += 1
        traffic.bytes_out += read.length


def _add(
    topics: dict[str | bytes, FetchResponseTopic],
    request: FetchRequest,
    read: ConsumerRead,
    *,
    is_included: bool,
) -> None:
    """Count what was read of a partition, and put it into the response or give it up."""
    _count(read)
    if not is_included:
        read.release()
        return
    name = read.key[0]
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = _topic(name)
    topic.partitions.append(_partition(request, read))


def _topic(name: str | bytes) -> FetchResponseTopic:
    if isinstance(name, str):
        return FetchResponseTopic(topic=name)
    return FetchResponseTopic(topic_id=TopicId(name))


def _partition(request: FetchRequest, read: ConsumerRead) -> FetchResponsePartition:
    row = read.row(read.key[1])
    row.aborted_transactions = read.aborted if request.isolation_level else None
    row.preferred_read_replica = read.preferred_read_replica
    return row
