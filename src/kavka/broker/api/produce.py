"""Produce: batches from a client to the logs that this broker leads.

acks=0    no answer; an error closes the connection, which is all that the client can learn
acks=1    answered when the bytes are in the page cache of this broker
acks=all  answered when the high watermark has passed them, or after the request's timeout, which begins when they
          are in the page cache (a slow disk is waited for)

Nearly every request is appended in the turn of the loop in which it is read. One that is not appended within its
allowance goes on in later turns, and checks of batches that are larger than that are finished in the pool. Until all of
it is appended, its connection handles no further request: batches of a producer are appended in the order of its
requests. What it may decompress to in all is bounded (decision 030).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Final, TypeVar

from kavka.broker.broker import Broker
from kavka.broker.current_leaders import add_current_leaders_to_produce
from kavka.broker.deferred_response import DeferredResponse
from kavka.broker.delayed_produce import (
    Append,
    DelayedProduce,
    wait_until_written,
)
from kavka.broker.dispatch import RequestContext
from kavka.broker.metadata import INTERNAL_TOPICS
from kavka.broker.replica import ACKS_ALL, AppendOutcome, Replica
from kavka.broker.traffic import count_refused_produce
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from kavka.wire.produce_response import Written, encode_written
from kavka.wire.records.batch_check import Allowance, BatchCheck
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import COMPRESSION_MASK, BatchHeader, read_header

_NONE = ErrorCode.NONE
_ACKS = (ACKS_ALL, 0, 1)
_NO_RECORDS = AppendOutcome(ErrorCode.INVALID_RECORD, message="The partition has no records.")

_FIRST_BYTES: Final = 5 << 19
"""What of a request is checked in the turn in which it is read: decompressed bytes, or the batch's own."""
_SLICE_BYTES: Final = 1 << 19
"""The same, of each later turn."""
_BATCH_COST: Final = 16 << 10
"""What a batch costs besides its bytes, in bytes; the partition included."""
_ROW_COST: Final = 2 << 10
"""What a partition costs of which nothing is appended."""
_SMALL_BATCH: Final = 64 << 10
_DECOMPRESSED_BYTES: Final = 256 << 20
_DECOMPRESSED_RATIO: Final = 16
"""A request may decompress to so many bytes, and to so many times the size of its compressed batches."""

_Outcomes = list[tuple[int, Replica | None, AppendOutcome]]
"""Outcomes of the partitions of one topic. Invariant: an outcome without error is of one partition only."""

_Appends = list[tuple[int, Replica | None, AppendOutcome | asyncio.Future[AppendOutcome]]]
"""The same, or what will."""

_Topics = list[tuple[str, _Outcomes]]

_Later = ProduceResponse | bytearray | DeferredResponse | None
"""What a second stage returns: the response, or one that waits for the replicas."""

_T = TypeVar("_T")
_Steps = Generator[BatchCheck | None, None, _T]
"""Appends a request. It yields a check that is to be finished before it goes on, or None to give others their turn."""


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | bytearray | DeferredResponse | Awaitable[_Later] | None:
    """Append to each partition, in the order of the request."""
    allowance = Allowance(_FIRST_BYTES, _DECOMPRESSED_BYTES, _DECOMPRESSED_RATIO)
    if request.transactional_id is not None:
        return _handle_in_transaction(broker, context, request, allowance)
    steps = _append_all(broker, context, request, allowance)
    try:
        wanted = next(steps)
    except StopIteration as stop:
        return _answer_appended(broker, context, request, stop.value)
    context.connection.block()
    return _append_later(broker, context, request, steps, wanted, allowance)


def _answer_appended(
    broker: Broker, context: RequestContext, request: ProduceRequest, outcomes: _Topics
) -> ProduceResponse | bytearray | DeferredResponse | Awaitable[_Later] | None:
    """Answer what was appended in this turn of the loop, now or when the replicas have it."""
    if request.acks == 0:
        return _without_response(context, outcomes)
    waiting = _waiting(request.acks, outcomes)
    if not waiting:
        return _accounted(broker, context, outcomes)
    if any(outcome.written is not None for _, outcome in waiting):
        return _answer_when_written(broker, context, request, outcomes, waiting)
    return _answer_when_replicated(broker, context, request, outcomes, waiting)


async def _append_later(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    steps: _Steps[_Topics],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _Later:
    """Append the rest of a request in later turns of the loop, then answer it."""
    outcomes = await _finish_steps(broker, context, steps, wanted, allowance)
    return await _answer_later(broker, context, request, outcomes)


async def _finish_steps(
    broker: Broker,
    context: RequestContext,
    steps: _Steps[_T],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _T:
    """Go on with a request whose connection is blocked, and unblock it when all is appended.

    It is finished without its connection, too: a client may send with acks=0 and close.
    """
    try:
        while True:
            if wanted is None:
                await asyncio.sleep(0)
            else:
                await broker.batch_checks.finish(wanted)
            allowance.bytes_left = _SLICE_BYTES
            try:
                wanted = next(steps)
            except StopIteration as stop:
                appended: _T = stop.value
                return appended
    finally:
        context.connection.unblock()


async def _answer_later(
    broker: Broker, context: RequestContext, request: ProduceRequest, outcomes: _Topics
) -> _Later:
    """Answer what was not appended in one turn of the loop."""
    if request.acks == 0:
        unanswered = _without_response(context, outcomes)
        if unanswered is not None:
            await unanswered
        return None
    # All are judged again: leaders may have changed since the first of them were appended.
    return await _answer_when_written(broker, context, request, outcomes, _appended(outcomes))


def _append_all(
    broker: Broker, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> _Steps[_Topics]:
    """Append to each partition of a request without transaction."""
    acks, version, find = request.acks, context.version, broker.replica_manager.find
    topics: _Topics = []
    for topic in request.topic_data:
        name = topic.name
        refusal = _refusal(request, name)
        outcomes: _Outcomes = []
        for data in topic.partition_data:
            index, records = data.index, data.records
            if allowance.bytes_left < 0:
                yield None
            replica = find(TopicPartition(name, index))
            if refusal is not None or isinstance(replica, ErrorCode) or not records:
                allowance.bytes_left -= _ROW_COST
                outcomes.append((index, None, refusal or _not_appended(replica)))
                continue
            assert isinstance(records, memoryview)
            allowance.bytes_left -= len(records) + _BATCH_COST
            outcome = replica.begin_append(records, acks, version, None, allowance)
            if isinstance(outcome, BatchCheck):
                check = outcome
                yield check
                replica = find(TopicPartition(name, index))
                if isinstance(replica, ErrorCode):
                    outcomes.append((index, None, AppendOutcome(replica)))
                    continue
                outcome = replica.append(check, acks, version)
            if outcome.error is not _NONE:
                count_refused_produce(replica.traffic, outcome.error, len(records))
            outcomes.append((index, replica, outcome))
        topics.append((name, outcomes))
    return topics


def _not_appended(found: Replica | ErrorCode) -> AppendOutcome:
    """Return what is answered of a partition that is not led here, or of which nothing was sent."""
    return AppendOutcome(found) if isinstance(found, ErrorCode) else _NO_RECORDS


def _refusal(request: ProduceRequest, topic: str) -> AppendOutcome | None:
    """Return why nothing of the request may be appended to the topic; None when it may.

    Apache Kafka lets any client write internal topics that calls itself `__admin_client`; here the coordinators do.
    """
    if request.acks not in _ACKS:
        return AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        message = f"Cannot append to internal topic {topic}"
        return AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    return None


def _handle_in_transaction(
    broker: Broker, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> ProduceResponse | bytearray | DeferredResponse | Awaitable[_Later] | None:
    steps = _append_in_transaction(broker, context, request, allowance)
    try:
        wanted = next(steps)
    except StopIteration as stop:
        appends: list[tuple[str, _Appends]] = stop.value
        outcomes = _finished(appends)
        if len(outcomes) < len(appends):
            return _finish(broker, context, request, appends)
        return _answer_appended(broker, context, request, outcomes)
    context.connection.block()
    return _append_in_transaction_later(broker, context, request, steps, wanted, allowance)


async def _append_in_transaction_later(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    steps: _Steps[list[tuple[str, _Appends]]],
    wanted: BatchCheck | None,
    allowance: Allowance,
) -> _Later:
    appends = await _finish_steps(broker, context, steps, wanted, allowance)
    return await _finish(broker, context, request, appends)


def _append_in_transaction(
    broker: Broker, context: RequestContext, request: ProduceRequest, allowance: Allowance
) -> _Steps[list[tuple[str, _Appends]]]:
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
    mixture = _mixture([header for some in headers for header in some if header is not None])
    appends: list[tuple[str, _Appends]] = []
    for topic, some in zip(request.topic_data, headers, strict=True):
        refusal = _refusal(request, topic.name) or mixture
        rows: _Appends = []
        for data, header in zip(topic.partition_data, some, strict=True):
            if allowance.bytes_left < 0:
                yield None
            allowance.bytes_left -= _ROW_COST
            topic_partition = TopicPartition(topic.name, data.index)
            replica = broker.replica_manager.find(topic_partition)
            records: memoryview | BatchCheck | None = None
            if refusal is None and data.records and not isinstance(replica, ErrorCode):
                assert isinstance(data.records, memoryview)
                records = data.records
                allowance.bytes_left -= len(records) + _BATCH_COST
                if _is_checked_first(header):
                    records = replica.begin_check(records, context.version, allowance)
                    if not records.advance():
                        yield records
                        replica = broker.replica_manager.find(topic_partition)
            if refusal is not None:
                rows.append((data.index, None, refusal))
            elif isinstance(replica, ErrorCode):
                rows.append((data.index, None, AppendOutcome(replica)))
            elif records is None:
                rows.append((data.index, None, _NO_RECORDS))
            else:
                batch = (records, request.acks, context.version)
                append = broker.verifier.append(replica, request.transactional_id, header, batch)
                rows.append((data.index, replica, append))
        appends.append((topic.name, rows))
    return appends


def _is_checked_first(header: BatchHeader | None) -> bool:
    """Tell whether a batch may take more than a moment: then it is checked before its coordinator is asked."""
    return header is not None and (
        header.attributes & COMPRESSION_MASK != 0 or header.size > _SMALL_BATCH
    )


def _header(records: object) -> BatchHeader | None:
    """Return the header of an unvalidated batch; None when there is none, which `append` refuses."""
    try:
        return read_header(records) if isinstance(records, memoryview) else None
    except CorruptBatch:
        return None


def _mixture(headers: list[BatchHeader]) -> AppendOutcome | None:
    """Refuse a request with transactional batches of several producers."""
    producers = {(h.producer_id, h.producer_epoch) for h in headers if h.is_transactional}
    if len(producers) <= 1:
        return None
    message = "Transactional records contained more than one producer ID"
    return AppendOutcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message=message)


def _finished(appends: list[tuple[str, _Appends]]) -> _Topics:
    """Return what became of the topics of which nothing waits."""
    outcomes: _Topics = []
    for name, rows in appends:
        finished: _Outcomes = []
        for index, replica, append in rows:
            if isinstance(append, AppendOutcome):
                finished.append((index, replica, append))
            elif append.done():
                finished.append((index, replica, append.result()))
        if len(finished) == len(rows):
            outcomes.append((name, finished))
    return outcomes


async def _finish(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    appends: list[tuple[str, _Appends]],
) -> _Later:
    """Answer when everything that waits for its coordinator is appended or refused."""
    unverified = [
        append
        for _, rows in appends
        for _, _, append in rows
        if not isinstance(append, AppendOutcome)
    ]
    if unverified:
        await asyncio.wait(unverified)
    return await _answer_later(broker, context, request, _finished(appends))


def _without_response(context: RequestContext, outcomes: _Topics) -> Awaitable[None] | None:
    """End a request of acks=0: now, or when a slow disk has taken it, for it counts as in flight until then."""
    if any(outcome.error is not _NONE for _, some in outcomes for _, _, outcome in some):
        context.connection.abort()
        return None
    queued = _waiting(0, outcomes)
    return _without_response_when_written(context, queued) if queued else None


async def _without_response_when_written(context: RequestContext, queued: list[Append]) -> None:
    if any(code is not _NONE for code in await wait_until_written(queued)):
        context.connection.abort()


def _appended(outcomes: _Topics) -> list[Append]:
    """Return the batches without error."""
    return [
        (replica, outcome)
        for _, some in outcomes
        for _, replica, outcome in some
        if replica is not None and outcome.error is _NONE
    ]


def _waiting(acks: int, outcomes: _Topics) -> list[Append]:
    """Return the batches without error that wait for the disk, or for the replicas: in the turn of their append only.

    Later a high watermark may have passed them with others' records, of another leader.
    """
    return [
        (replica, outcome)
        for _, some in outcomes
        for _, replica, outcome in some
        if replica is not None
        and outcome.error is _NONE
        and (
            outcome.written is not None
            or (acks == ACKS_ALL and replica.partition.high_watermark < outcome.end_offset)
        )
    ]


def _answer_when_replicated(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: _Topics,
    appends: list[Append],
) -> DeferredResponse:
    """Answer when the replicas in sync have the batches that wait, all written here, or the time is over."""

    def answer() -> ProduceResponse | bytearray:
        return _accounted(broker, context, _with_codes(outcomes, appends, replicating.codes()))

    def drop() -> None:
        if ticket is not None:
            broker.produce_purgatory.cancel(ticket)

    deferred = DeferredResponse(answer, drop)
    replicating = DelayedProduce(appends, deferred.wake)
    ticket = None
    if replicating.is_complete():  # the disk has failed under a later batch of the request
        deferred.wake()
    else:
        ticket = broker.produce_purgatory.wait(replicating.keys(), request.timeout_ms, replicating)
    return deferred


async def _answer_when_written(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: _Topics,
    appends: list[Append],
) -> ProduceResponse | bytearray | DeferredResponse:
    """Answer when the batches that wait are finished: first the disk, then, for acks=all, the replicas."""
    codes = await wait_until_written(appends)
    outcomes = _with_codes(outcomes, appends, codes)
    left = [append for append, code in zip(appends, codes, strict=True) if code is _NONE]
    if request.acks == ACKS_ALL and left:
        return _answer_when_replicated(broker, context, request, outcomes, left)
    return _with_leaders(broker, context, _response(outcomes))


def _with_codes(outcomes: _Topics, appends: list[Append], codes: list[ErrorCode]) -> _Topics:
    """Put the errors of what was not acknowledged in the place of what was appended."""
    refused = {
        id(outcome): AppendOutcome(code, message=code.message)
        for (_, outcome), code in zip(appends, codes, strict=True)
        if code is not _NONE
    }
    if not refused:
        return outcomes
    return [
        (name, [(index, replica, refused.get(id(was), was)) for index, replica, was in some])
        for name, some in outcomes
    ]


def _accounted(
    broker: Broker, context: RequestContext, outcomes: _Topics
) -> ProduceResponse | bytearray:
    """Answer a request of which nothing waits any more: in short, unless there is an error to tell."""
    topics: list[tuple[str, list[Written]]] = []
    for name, some in outcomes:
        partitions = []
        for index, _, outcome in some:
            if outcome.error is not _NONE:
                return _with_leaders(broker, context, _response(outcomes))
            partitions.append((index, outcome[1], outcome[2], outcome[3]))
        topics.append((name, partitions))
    return encode_written(context.version, context.header.correlation_id, topics)


def _response(outcomes: _Topics) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=name,
                partition_responses=[
                    _partition_response(index, outcome) for index, _, outcome in some
                ],
            )
            for name, some in outcomes
        ]
    )


def _with_leaders(
    broker: Broker, context: RequestContext, response: ProduceResponse
) -> ProduceResponse:
    return add_current_leaders_to_produce(broker, context.listener_name, context.version, response)


def _partition_response(index: int, outcome: AppendOutcome) -> ProduceResponsePartition:
    if outcome.error is _NONE:
        return ProduceResponsePartition(
            index=index,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.log_append_time_ms,
            log_start_offset=outcome.log_start_offset,
        )
    return ProduceResponsePartition(
        index=index,
        error_code=outcome.error,
        base_offset=-1,
        error_message=outcome.message,
        record_errors=[
            ProduceResponseRecordError(batch_index=at, batch_index_error_message=message)
            for at, message in outcome.record_errors
        ],
    )
