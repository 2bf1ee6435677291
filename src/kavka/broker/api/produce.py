"""Produce: batches from a client to the logs that this broker leads.

acks=0    no answer; an error closes the connection, which is all that the client can learn
acks=1    answered when the bytes are in the page cache of this broker
acks=all  answered when the high watermark has passed them, or after the request's timeout
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from kavka.broker.acknowledgement import Append, Replicating, replicated, written
from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.metadata import INTERNAL_TOPICS
from kavka.broker.moved_leaders import name_leaders_of_produce
from kavka.broker.parked import Parked
from kavka.broker.replica import ACKS_ALL, AppendOutcome, Replica
from kavka.broker.traffic import note_refused_produce
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from kavka.wire.produce_answer import Written, encode_written
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader, read_header

_NONE = ErrorCode.NONE
_ACKS = (ACKS_ALL, 0, 1)
_NO_RECORDS = AppendOutcome(ErrorCode.INVALID_RECORD, message="The partition has no records.")


class _Pending(NamedTuple):
    """A part of the answer that waits: for the disk, or for the replicas."""

    append: Append
    answer: ProduceResponsePartition


_Outcomes = list[tuple[int, Replica | None, AppendOutcome]]
"""What became of the partitions of one topic."""

_Appends = list[tuple[int, Replica | None, AppendOutcome | asyncio.Future[AppendOutcome]]]
"""The same, or what will."""


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | bytearray | Parked | Awaitable[ProduceResponse | None] | None:
    """Append to each partition, in the order of the request."""
    if request.transactional_id is None:
        outcomes = [
            (topic.name, _append_topic(broker, context, request, topic))
            for topic in request.topic_data
        ]
    else:
        appends = _append_in_transaction(broker, context, request, request.transactional_id)
        outcomes = _finished(appends)
        if len(outcomes) < len(appends):
            return _finish(broker, context, request, appends)
    if request.acks == 0:
        return _give_no_answer(context, outcomes)
    answer = _written(outcomes)
    if answer is None:
        return _respond(broker, context, request, outcomes)
    if request.acks == ACKS_ALL and _waits_for_replicas(outcomes):
        return _answer_when_replicated(broker, context, request, outcomes, answer)
    return encode_written(context.version, context.header.correlation_id, answer)


def _append_topic(
    broker: Broker, context: RequestContext, request: ProduceRequest, topic: ProduceRequestTopic
) -> _Outcomes:
    name, acks, version = topic.name, request.acks, context.version
    refusal = _refusal(context, request, name)
    if refusal is not None:
        return [(data.index, None, refusal) for data in topic.partition_data]
    find = broker.replicas.find
    outcomes: _Outcomes = []
    for data in topic.partition_data:
        index, records = data.index, data.records
        replica = find(TopicPartition(name, index))
        if isinstance(replica, ErrorCode):
            outcomes.append((index, None, AppendOutcome(replica)))
        elif not records:
            outcomes.append((index, None, _NO_RECORDS))
        else:
            assert isinstance(records, memoryview)
            outcome = replica.append(records, acks, version)
            if outcome.error is not _NONE:
                note_refused_produce(replica.traffic, outcome.error, len(records))
            outcomes.append((index, replica, outcome))
    return outcomes


def _refusal(context: RequestContext, request: ProduceRequest, topic: str) -> AppendOutcome | None:
    """Say why nothing of the request may be appended to the topic; None lets it be."""
    if request.acks not in _ACKS:
        return AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS and context.client_id != "__admin_client":
        message = f"Cannot append to internal topic {topic}"
        return AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    return None


def _append_in_transaction(
    broker: Broker, context: RequestContext, request: ProduceRequest, transactional_id: str
) -> list[tuple[str, _Appends]]:
    """Append batches of open transactions at once, the others when their coordinator has agreed (KIP-890)."""
    headers = [
        [_header(data.records) for data in topic.partition_data] for topic in request.topic_data
    ]
    mixture = _mixture([header for some in headers for header in some if header is not None])
    appends: list[tuple[str, _Appends]] = []
    for topic, some in zip(request.topic_data, headers, strict=True):
        refusal = _refusal(context, request, topic.name) or mixture
        rows: _Appends = []
        for data, header in zip(topic.partition_data, some, strict=True):
            replica = broker.replicas.find(TopicPartition(topic.name, data.index))
            if refusal is not None:
                rows.append((data.index, None, refusal))
            elif isinstance(replica, ErrorCode):
                rows.append((data.index, None, AppendOutcome(replica)))
            elif not data.records:
                rows.append((data.index, None, _NO_RECORDS))
            else:
                assert isinstance(data.records, memoryview)
                batch = (data.records, request.acks, context.version)
                append = broker.verifier.append(replica, transactional_id, header, batch)
                rows.append((data.index, replica, append))
        appends.append((topic.name, rows))
    return appends


def _header(records: object) -> BatchHeader | None:
    """Return the header of a batch that nobody has judged yet; None when there is none, which `append` refuses."""
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


def _finished(appends: list[tuple[str, _Appends]]) -> list[tuple[str, _Outcomes]]:
    """Return what became of the topics of which nothing waits."""
    outcomes: list[tuple[str, _Outcomes]] = []
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
) -> ProduceResponse | None:
    """Answer when everything that waits for its coordinator is appended or refused."""
    waiting = [
        append
        for _, rows in appends
        for _, _, append in rows
        if not isinstance(append, AppendOutcome)
    ]
    await asyncio.wait(waiting)
    outcomes = _finished(appends)
    if request.acks == 0:
        unanswered = _give_no_answer(context, outcomes)
        if unanswered is not None:
            await unanswered
        return None
    response = _respond(broker, context, request, outcomes)
    return response if isinstance(response, ProduceResponse) else await response


def _give_no_answer(
    context: RequestContext, outcomes: list[tuple[str, _Outcomes]]
) -> Awaitable[None] | None:
    """End a request of acks=0: now, or when a slow disk has taken it, for it counts as in flight until then."""
    if any(outcome.error is not _NONE for _, some in outcomes for _, _, outcome in some):
        context.connection.abort()
        return None
    queued = [
        (replica, outcome)
        for _, some in outcomes
        for _, replica, outcome in some
        if replica is not None and outcome.written is not None
    ]
    return _give_no_answer_when_written(context, queued) if queued else None


async def _give_no_answer_when_written(context: RequestContext, queued: list[Append]) -> None:
    if any(code is not _NONE for code in await written(queued)):
        context.connection.abort()


def _written(outcomes: list[tuple[str, _Outcomes]]) -> list[tuple[str, list[Written]]] | None:
    """Return the answer in short; None when there is an error to tell, or a slow disk to wait for."""
    topics = []
    for name, some in outcomes:
        written = []
        for index, replica, outcome in some:
            if replica is None or outcome.error is not _NONE or outcome.written is not None:
                return None
            written.append((index, outcome[1], outcome[2], outcome[3]))
        topics.append((name, written))
    return topics


def _waits_for_replicas(outcomes: list[tuple[str, _Outcomes]]) -> bool:
    """Tell whether a batch that is written is not replicated yet."""
    for _, some in outcomes:
        for _, replica, outcome in some:
            if replica is not None and replica.partition.high_watermark < outcome.end_offset:
                return True
    return False


def _answer_when_replicated(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: list[tuple[str, _Outcomes]],
    in_short: list[tuple[str, list[Written]]],
) -> Parked:
    """Answer batches that are all written when the replicas in sync have them, or the time is over."""
    appends = [
        (replica, outcome)
        for _, some in outcomes
        for _, replica, outcome in some
        if replica is not None
    ]

    def answer() -> ProduceResponse | bytearray:
        codes = replicating.codes()
        if any(code is not _NONE for code in codes):
            return _refused(broker, context, outcomes, codes)
        return encode_written(context.version, context.header.correlation_id, in_short)

    def drop() -> None:
        if waiting is not None:
            broker.produce_purgatory.drop(waiting)

    parked = Parked(answer, drop)
    replicating = Replicating(appends, parked.wake)
    waiting = broker.produce_purgatory.wait(replicating.keys(), request.timeout_ms, replicating)
    return parked


def _refused(
    broker: Broker,
    context: RequestContext,
    outcomes: list[tuple[str, _Outcomes]],
    codes: list[ErrorCode],
) -> ProduceResponse:
    """Answer with the errors of what was written and not acknowledged; `codes` are of all batches, in their order."""
    left = iter(codes)
    judged = [
        (name, [(index, replica, _judged(outcome, next(left))) for index, replica, outcome in some])
        for name, some in outcomes
    ]
    return _with_leaders(broker, context, _response(judged))


def _judged(outcome: AppendOutcome, code: ErrorCode) -> AppendOutcome:
    return outcome if code is _NONE else AppendOutcome(code, message=code.message)


def _must_wait(acks: int, replica: Replica, outcome: AppendOutcome) -> bool:
    """Tell whether a batch without error waits for the disk or the replicas."""
    if outcome.written is not None:
        return True
    return acks == ACKS_ALL and replica.partition.high_watermark < outcome.end_offset


def _respond(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    outcomes: list[tuple[str, _Outcomes]],
) -> ProduceResponse | Awaitable[ProduceResponse]:
    """Answer with errors, or later."""
    response = _response(outcomes)
    pending = [
        _Pending((replica, outcome), answer)
        for (_, some), topic in zip(outcomes, response.responses, strict=True)
        for (_, replica, outcome), answer in zip(some, topic.partition_responses, strict=True)
        if replica is not None
        and outcome.error is _NONE
        and _must_wait(request.acks, replica, outcome)
    ]
    if not pending:
        return _with_leaders(broker, context, response)
    return _wait(broker, context, request, response, pending)


def _response(outcomes: list[tuple[str, _Outcomes]]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=name,
                partition_responses=[_answer(index, outcome) for index, _, outcome in some],
            )
            for name, some in outcomes
        ]
    )


def _with_leaders(
    broker: Broker, context: RequestContext, response: ProduceResponse
) -> ProduceResponse:
    return name_leaders_of_produce(broker, context.listener_name, context.version, response)


def _answer(index: int, outcome: AppendOutcome) -> ProduceResponsePartition:
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


async def _wait(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: list[_Pending],
) -> ProduceResponse:
    """Finish the answers that wait: first the disk, then, for acks=all, the replicas."""
    codes = await written([part.append for part in pending])
    _judge(pending, codes)
    waiting = [part for part in pending if part.answer.error_code == _NONE]
    if request.acks == ACKS_ALL and waiting:
        appends = [part.append for part in waiting]
        _judge(waiting, await replicated(broker.produce_purgatory, appends, request.timeout_ms))
    return _with_leaders(broker, context, response)


def _judge(pending: list[_Pending], codes: list[ErrorCode]) -> None:
    """Put the errors of what was not acknowledged into the answers."""
    for part, code in zip(pending, codes, strict=True):
        if code is not _NONE:
            _refuse(part.answer, code, code.message)


def _refuse(answer: ProduceResponsePartition, code: ErrorCode, message: str) -> None:
    answer.error_code = code
    answer.error_message = message
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
