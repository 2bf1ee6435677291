"""Produce: batches from a client to the logs that this broker leads.

acks=0    no result; an error closes the connection, which is all that the client can learn
acks=1    answered when the bytes are in the page cache of this broker
acks=all  answered when the high watermark has passed them, or after the request's timeout, which begins when they
          are in the page cache (a slow disk is waited for)

Nearly every request is appended in the iteration of the loop in which it is read. One that is not appended within its
allowance continues in later iterations, and checks of batches that are larger than that are finished in the pool. Until
all of it is appended, its connection handles no further request: batches of a producer are appended in the order of its
requests. What it may decompress to in all is bounded (decision 030).
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

from kavka.broker.metadata.cache import INTERNAL_TOPICS
from kavka.broker.partitions.replica import ACKS_ALL, AppendOutcome, Replica
from kavka.broker.partitions.traffic import count_refused_produce
from kavka.broker.produce.delayed_produce import Append, DelayedProduce, wait_until_written
from kavka.broker.produce.produce_outcomes import (
    PartitionOutcome,
    TopicOutcomes,
    appended,
    has_errors,
    respond,
    respond_with_errors,
    waiting,
    with_codes,
)
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import NO_RESPONSE, SecondStage
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.broker.services import Services
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.frame import EncodedResponse
from kavka.wire.messages.produce import ProduceRequest, ProduceResponse
from kavka.wire.records.batch_check import Allowance, BatchCheck
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import COMPRESSION_MASK, BatchHeader, read_header

_NONE = ErrorCode.NONE
_ACKS = (ACKS_ALL, 0, 1)
_WRITE, _TOPIC = AclOperation.WRITE, AclResourceType.TOPIC
_NO_RECORDS = AppendOutcome(ErrorCode.INVALID_RECORD, message="The partition has no records.")

_FIRST_BYTES: Final = 5 << 19
"""Bytes of a request that are checked in the iteration in which it is read: decompressed, or the batch's own."""
_SLICE_BYTES: Final = 1 << 19
"""The same, of each later iteration."""
_BATCH_COST: Final = 16 << 10
"""Cost of a batch besides its bytes, in bytes; the partition included."""
_ROW_COST: Final = 2 << 10
"""Cost of a partition without an append."""
_SMALL_BATCH: Final = 64 << 10
_DECOMPRESSED_BYTES: Final = 256 << 20
_DECOMPRESSED_RATIO: Final = 16
"""A request may decompress to so many bytes, and to so many times the size of its compressed batches."""

_Result = ProduceResponse | EncodedResponse | DelayedProduce | SecondStage


class _Unverified(NamedTuple):
    """The batch of one partition that is appended when its coordinator has agreed."""

    partition: int
    replica: Replica
    append: asyncio.Future[AppendOutcome]


class _TopicAppends(NamedTuple):
    """The batches of one topic in a transaction."""

    name: str
    partitions: list[PartitionOutcome | _Unverified]


_T = TypeVar("_T")
_Steps = Generator[BatchCheck | None, None, _T]
"""Appends a request. It yields a check to finish before it continues, or None to let other requests run."""


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> _Result:
    """Append to each partition, in the order of the request."""
    allowance = Allowance(_FIRST_BYTES, _DECOMPRESSED_BYTES, _DECOMPRESSED_RATIO)
    if request.transactional_id is not None:
        return _handle_in_transaction(services, context, request, allowance)
    steps = _append_all(services, context, request, allowance)
    try:
        wanted = next(steps)
    except StopIteration as stop:
        return _respond_to_appended(services, context, request, stop.value)
    context.connection.block()
    return SecondStage(_append_later(services, context, request, steps, wanted, allowance))


def _respond_to_appended(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: list[TopicOutcomes],
) -> _Result:
    """Answer what was appended in this iteration of the loop, now or when the replicas have it."""
    if request.acks == 0:
        return _without_response(context, outcomes)
    appends = waiting(request.acks, outcomes)
    if not appends:
        return respond(services.current_leaders, context, outcomes)
    if any(append.outcome.written is not None for append in appends):
        return SecondStage(_respond_when_written(services, context, request, outcomes, appends))
    return _respond_when_replicated(services, context, request, outcomes, appends)


async def _append_later(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    steps: _Steps[list[TopicOutcomes]],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _Result:
    """Append the rest of a request in later iterations of the loop, then answer it."""
    outcomes = await _finish_steps(services, context, steps, wanted, allowance)
    return await _respond_later(services, context, request, outcomes)


async def _finish_steps(
    services: Services,
    context: RequestContext,
    steps: _Steps[_T],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _T:
    """Continue a request with a blocked connection, and unblock it when all is appended.

    It is finished without its connection, too: a client may send with acks=0 and close.
    """
    try:
        while True:
            if wanted is None:
                await asyncio.sleep(0)
            else:
                await services.batch_checks.finish(wanted)
            allowance.bytes_left = _SLICE_BYTES
            try:
                wanted = next(steps)
            except StopIteration as stop:
                appended: _T = stop.value
                return appended
    finally:
        context.connection.unblock()


async def _respond_later(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: list[TopicOutcomes],
) -> _Result:
    """Answer what was not appended in one iteration of the loop."""
    if request.acks == 0:
        return _without_response(context, outcomes)
    # All are judged again: leaders may have changed since the first of them were appended.
    return await _respond_when_written(services, context, request, outcomes, appended(outcomes))


def _append_all(
    services: Services, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> _Steps[list[TopicOutcomes]]:
    """Append to each partition of a request without transaction."""
    acks, version, find = request.acks, context.version, services.replica_manager.find
    topics: list[TopicOutcomes] = []
    for topic in request.topic_data:
        name = topic.name
        refusal = _refusal(context, request, name)
        outcomes: list[PartitionOutcome] = []
        for data in topic.partition_data:
            index, records = data.index, data.records
            if allowance.bytes_left < 0:
                yield None
            replica = find(TopicPartition(name, index))
            if refusal is not None or isinstance(replica, ErrorCode) or not records:
                allowance.bytes_left -= _ROW_COST
                outcomes.append(PartitionOutcome(index, None, refusal or _not_appended(replica)))
                continue
            assert isinstance(records, memoryview)
            allowance.bytes_left -= len(records) + _BATCH_COST
            outcome = replica.begin_append(records, acks, version, None, allowance)
            if isinstance(outcome, BatchCheck):
                check = outcome
                yield check
                replica = find(TopicPartition(name, index))
                if isinstance(replica, ErrorCode):
                    outcomes.append(PartitionOutcome(index, None, AppendOutcome(replica)))
                    continue
                outcome = replica.append(check, acks, version)
            if outcome.error is not _NONE:
                count_refused_produce(replica.traffic, outcome.error, len(records))
            outcomes.append(PartitionOutcome(index, replica, outcome))
        topics.append(TopicOutcomes(name, outcomes))
    return topics


def _not_appended(found: Replica | ErrorCode) -> AppendOutcome:
    """Return what is answered of a partition that is not led here, or of which nothing was sent."""
    return AppendOutcome(found) if isinstance(found, ErrorCode) else _NO_RECORDS


def _refusal(context: RequestContext, request: ProduceRequest, topic: str) -> AppendOutcome | None:
    """Return why nothing of the request may be appended to the topic; None when it may.

    Apache Kafka lets any client write internal topics that calls itself `__admin_client`; here the coordinators do.
    """
    if context.authorizer is not None and not context.allows(_WRITE, _TOPIC, topic):
        return AppendOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if request.acks not in _ACKS:
        return AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        message = f"Cannot append to internal topic {topic}"
        return AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    return None


def _handle_in_transaction(
    services: Services, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> _Result:
    steps = _append_in_transaction(services, context, request, allowance)
    try:
        wanted = next(steps)
    except StopIteration as stop:
        appends: list[_TopicAppends] = stop.value
        outcomes = _finished(appends)
        if len(outcomes) < len(appends):
            return SecondStage(_finish(services, context, request, appends))
        return _respond_to_appended(services, context, request, outcomes)
    context.connection.block()
    later = _append_in_transaction_later(services, context, request, steps, wanted, allowance)
    return SecondStage(later)


async def _append_in_transaction_later(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    steps: _Steps[list[_TopicAppends]],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _Result:
    appends = await _finish_steps(services, context, steps, wanted, allowance)
    return await _finish(services, context, request, appends)


def _append_in_transaction(
    services: Services, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> _Steps[list[_TopicAppends]]:
    """Append batches of open transactions at once, the others when their coordinator has agreed (KIP-890)."""
    assert request.transactional_id is not None
    headers: list[list[BatchHeader | None]] = []
    for topic in request.topic_data:
        headers.append([])
        for data in topic.partition_data:
            if allowance.bytes_left < 0:
                yield None
            allowance.bytes_left -= _ROW_COST
            headers[-1].append(_header(data.records))
    known = [header for some in headers for header in some if header is not None]
    unauthorized, mixture = _unauthorized(context, request, known), _mixture(known)
    appends: list[_TopicAppends] = []
    for topic, some in zip(request.topic_data, headers, strict=True):
        refusal = unauthorized or _refusal(context, request, topic.name) or mixture
        rows: list[PartitionOutcome | _Unverified] = []
        for data, header in zip(topic.partition_data, some, strict=True):
            if allowance.bytes_left < 0:
                yield None
            allowance.bytes_left -= _ROW_COST
            topic_partition = TopicPartition(topic.name, data.index)
            replica = services.replica_manager.find(topic_partition)
            records: memoryview | BatchCheck | None = None
            if refusal is None and data.records and not isinstance(replica, ErrorCode):
                assert isinstance(data.records, memoryview)
                records = data.records
                allowance.bytes_left -= len(records) + _BATCH_COST
                if _is_checked_first(header):
                    records = replica.begin_check(records, context.version, allowance)
                    if not records.advance():
                        yield records
                        replica = services.replica_manager.find(topic_partition)
            if refusal is not None:
                rows.append(PartitionOutcome(data.index, None, refusal))
            elif isinstance(replica, ErrorCode):
                rows.append(PartitionOutcome(data.index, None, AppendOutcome(replica)))
            elif records is None:
                rows.append(PartitionOutcome(data.index, None, _NO_RECORDS))
            else:
                batch = (records, request.acks, context.version)
                append = services.verifier.append(replica, request.transactional_id, header, batch)
                if isinstance(append, AppendOutcome):
                    rows.append(PartitionOutcome(data.index, replica, append))
                else:
                    rows.append(_Unverified(data.index, replica, append))
        appends.append(_TopicAppends(topic.name, rows))
    return appends


def _is_checked_first(header: BatchHeader | None) -> bool:
    """Return whether a batch may take long: then it is checked before its coordinator is asked."""
    return header is not None and (
        header.attributes & COMPRESSION_MASK != 0 or header.size > _SMALL_BATCH
    )


def _header(records: object) -> BatchHeader | None:
    """Return the header of an unvalidated batch; None when there is none, which `append` refuses."""
    try:
        return read_header(records) if isinstance(records, memoryview) else None
    except CorruptBatch:
        return None


def _unauthorized(
    context: RequestContext, request: ProduceRequest, headers: list[BatchHeader]
) -> AppendOutcome | None:
    """Refuse a request with transactional batches whose client may not write with its transactional id."""
    if context.authorizer is None or not any(header.is_transactional for header in headers):
        return None
    assert request.transactional_id is not None
    kind = AclResourceType.TRANSACTIONAL_ID
    if context.allows(_WRITE, kind, request.transactional_id):
        return None
    return AppendOutcome(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _mixture(headers: list[BatchHeader]) -> AppendOutcome | None:
    """Refuse a request with transactional batches of several producers."""
    producers = {(h.producer_id, h.producer_epoch) for h in headers if h.is_transactional}
    if len(producers) <= 1:
        return None
    message = "Transactional records contained more than one producer ID"
    return AppendOutcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message=message)


def _finished(appends: list[_TopicAppends]) -> list[TopicOutcomes]:
    """Return what became of the topics of which nothing waits."""
    topics = []
    for name, rows in appends:
        finished: list[PartitionOutcome] = []
        for row in rows:
            if isinstance(row, PartitionOutcome):
                finished.append(row)
            elif row.append.done():
                finished.append(PartitionOutcome(row.partition, row.replica, row.append.result()))
        if len(finished) == len(rows):
            topics.append(TopicOutcomes(name, finished))
    return topics


async def _finish(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    appends: list[_TopicAppends],
) -> _Result:
    """Answer when everything that waits for its coordinator is appended or refused."""
    unverified = [
        row.append for topic in appends for row in topic.partitions if isinstance(row, _Unverified)
    ]
    if unverified:
        await asyncio.wait(unverified)
    return await _respond_later(services, context, request, _finished(appends))


def _without_response(
    context: RequestContext, topics: list[TopicOutcomes]
) -> EncodedResponse | SecondStage:
    """End a request of acks=0: now, or when a slow disk has taken it, for it counts as in flight until then."""
    if has_errors(topics):
        context.connection.abort()
        return NO_RESPONSE
    queued = waiting(0, topics)
    if not queued:
        return NO_RESPONSE
    return SecondStage(_without_response_when_written(context, queued))


async def _without_response_when_written(
    context: RequestContext, queued: list[Append]
) -> EncodedResponse:
    if any(code is not _NONE for code in await wait_until_written(queued)):
        context.connection.abort()
    return NO_RESPONSE


def _respond_when_replicated(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    topics: list[TopicOutcomes],
    appends: list[Append],
) -> DelayedProduce:
    """Respond when the replicas in sync have the batches that wait, all written here, or the time is over."""

    def build(codes: list[ErrorCode]) -> ProduceResponse | EncodedResponse:
        return respond(services.current_leaders, context, with_codes(topics, appends, codes))

    return DelayedProduce(services.produce_purgatory, appends, request.timeout_ms, build)


async def _respond_when_written(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    topics: list[TopicOutcomes],
    appends: list[Append],
) -> ProduceResponse | DelayedProduce:
    """Respond when the batches that wait are finished: first the disk, then, for acks=all, the replicas."""
    codes = await wait_until_written(appends)
    topics = with_codes(topics, appends, codes)
    left = [append for append, code in zip(appends, codes, strict=True) if code is _NONE]
    if request.acks == ACKS_ALL and left:
        return _respond_when_replicated(services, context, request, topics, left)
    return respond_with_errors(services.current_leaders, context, topics)
