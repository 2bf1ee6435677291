"""Fetch: batches from the logs, answered when there are enough bytes or the wait is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.fetching import FetchReader, PartitionRead
from kavka.core.fetch_session import FetchContext, FetchOutcome, FetchPartition, PartitionKey
from kavka.errors import ErrorCode
from kavka.ids import TopicId
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
)

_BY_TOPIC_ID = 13


def handle(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Begin or continue a session, read, and wait when there is too little."""
    by_id = context.version >= _BY_TOPIC_ID
    replica_id = request.replica_id if context.version < 15 else request.replica_state.replica_id
    session = broker.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        _partitions(request),
        [
            (topic.topic or topic.topic_id, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ],
        by_topic_id=by_id,
        is_follower=replica_id >= 0,
        now_ms=context.received_ms,
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    reader = FetchReader(broker, request, context.version, session.partitions())
    reads = reader.read()
    if any(read.is_cold for read in reads):
        return _load(broker, context, request, session, reader, reads)
    if _is_enough(request, reads):
        return _response(broker, context, request, session, reads)
    return _wait(broker, context, request, session, reader, reads)


def _partitions(request: FetchRequest) -> dict[PartitionKey, FetchPartition]:
    return {
        (topic.topic or topic.topic_id, asked.partition): FetchPartition(
            asked.fetch_offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch,
            asked.log_start_offset,
            asked.last_fetched_epoch,
        )
        for topic in request.topics
        for asked in topic.partitions
    }


def _is_enough(request: FetchRequest, reads: list[PartitionRead]) -> bool:
    """Tell whether to answer now: enough bytes, an error to tell, or nothing to wait for."""
    if request.max_wait_ms <= 0 or not reads:
        return True
    total = 0
    for read in reads:
        outcome = read.outcome
        if outcome.error_code or outcome.has_diverging_epoch:
            return True
        total += outcome.records_length
    return total >= request.min_bytes


async def _load(
    broker: Broker,
    context: RequestContext,
    request: FetchRequest,
    session: FetchContext,
    reader: FetchReader,
    reads: list[PartitionRead],
) -> FetchResponse:
    """Bring what is not in the page cache there, in the pool, then answer."""
    await reader.load(reads)
    return _response(broker, context, request, session, reads)


def _wait(
    broker: Broker,
    context: RequestContext,
    request: FetchRequest,
    session: FetchContext,
    reader: FetchReader,
    reads: list[PartitionRead],
) -> Awaitable[FetchResponse]:
    """Wait for bytes, an error or the end of `max_wait_ms`, and read again.

    The wait is registered in the first stage: what is appended before the second stage begins wakes this fetch too.
    """
    have = sum(read.outcome.records_length for read in reads)
    wait = _BytesWait(reader, request.min_bytes - have)
    reader.release(reads)
    waiting = broker.fetch_purgatory.wait(reader.where(), request.max_wait_ms, wait)

    async def answer() -> FetchResponse:
        try:
            await wait.done
        except asyncio.CancelledError:
            if waiting is not None:
                broker.fetch_purgatory.drop(waiting)
            raise
        again = reader.read()
        if any(read.is_cold for read in again):
            await reader.load(again)
        return _response(broker, context, request, session, again)

    return answer()


class _BytesWait:
    """Waits until the partitions of a fetch have grown by enough bytes."""

    __slots__ = ("_before", "_reader", "_wanted", "done")

    def __init__(self, reader: FetchReader, wanted: int) -> None:
        self._reader = reader
        self._wanted = wanted
        self._before = reader.appended_bytes()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_complete(self) -> bool:
        if self._wanted <= 1:
            return True  # whatever touched a partition is worth an answer
        return self._reader.appended_bytes() - self._before >= self._wanted

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _response(
    broker: Broker,
    context: RequestContext,
    request: FetchRequest,
    session: FetchContext,
    reads: list[PartitionRead],
) -> FetchResponse:
    outcomes: dict[PartitionKey, FetchOutcome] = {read.key: read.outcome for read in reads}
    candidate = int.from_bytes(broker.chance.random_bytes(4)) & 0x7FFFFFFF
    answer = session.finish(outcomes, candidate, context.received_ms)
    included = set(answer.partitions)
    topics: dict[str | bytes, FetchResponseTopic] = {}
    for read in reads:
        if read.key not in included:
            read.release()
            continue
        name = read.key[0]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = _topic(name)
        topic.partitions.append(_partition(request, read))
    return FetchResponse(
        error_code=answer.error_code,
        session_id=answer.session_id,
        responses=list(topics.values()),
    )


def _topic(name: str | bytes) -> FetchResponseTopic:
    if isinstance(name, str):
        return FetchResponseTopic(topic=name)
    return FetchResponseTopic(topic_id=TopicId(name))


def _partition(request: FetchRequest, read: PartitionRead) -> FetchResponsePartition:
    outcome = read.outcome
    answer = FetchResponsePartition(
        partition_index=read.key[1],
        error_code=outcome.error_code,
        high_watermark=outcome.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=outcome.log_start_offset,
        aborted_transactions=read.aborted if request.isolation_level else None,
        records=b"" if read.records is None else read.records,
    )
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        answer.diverging_epoch = FetchResponseDivergingEpoch(epoch=epoch, end_offset=end_offset)
    return answer
