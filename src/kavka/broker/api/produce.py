"""Produce: batches from a client to the logs that this broker leads.

acks=0    no answer; an error closes the connection, which is all that the client can learn
acks=1    answered when the bytes are in the page cache of this broker
acks=all  answered when the high watermark has passed them, or after the request's timeout
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.metadata import INTERNAL_TOPICS
from kavka.broker.replica import ACKS_ALL, AppendOutcome, Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)

_NO_RECORDS = AppendOutcome(ErrorCode.INVALID_RECORD, message="The partition has no records.")


class _Pending:
    """A part of the answer that waits: for the disk, or for the replicas."""

    __slots__ = ("answer", "outcome", "replica")

    def __init__(
        self, replica: Replica, outcome: AppendOutcome, answer: ProduceResponsePartition
    ) -> None:
        self.replica = replica
        self.outcome = outcome
        self.answer = answer


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to each partition, in the order of the request."""
    pending: list[_Pending] = []
    responses: list[ProduceResponseTopic] = []
    failed = False
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            where = TopicPartition(topic.name, data.index)
            replica, outcome = _append(broker, context, request, where, data)
            answer = _answer(data.index, outcome)
            answers.append(answer)
            failed = failed or outcome.error is not ErrorCode.NONE
            if replica is not None and _must_wait(request.acks, replica, outcome):
                pending.append(_Pending(replica, outcome, answer))
        responses.append(ProduceResponseTopic(name=topic.name, partition_responses=answers))
    if request.acks == 0:
        if failed:
            context.connection.abort()
        return None
    response = ProduceResponse(responses=responses)
    if not pending:
        return response
    return _wait(broker, request, response, pending)


def _append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    where: TopicPartition,
    data: ProduceRequestPartition,
) -> tuple[Replica | None, AppendOutcome]:
    if request.acks not in (ACKS_ALL, 0, 1):
        return None, AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        message = "Transactions are not in this release."
        return None, AppendOutcome(ErrorCode.INVALID_TXN_STATE, message=message)
    if where.topic in INTERNAL_TOPICS and context.client_id != "__admin_client":
        message = f"Cannot append to internal topic {where.topic}"
        return None, AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    replica = broker.replicas.find(where)
    if isinstance(replica, ErrorCode):
        return None, AppendOutcome(replica)
    if not data.records:
        return None, _NO_RECORDS
    assert isinstance(data.records, memoryview)
    return replica, replica.append(data.records, request.acks, context.version)


def _must_wait(acks: int, replica: Replica, outcome: AppendOutcome) -> bool:
    if outcome.error is not ErrorCode.NONE:
        return False
    if outcome.written is not None:
        return True
    return acks == ACKS_ALL and replica.partition.high_watermark < outcome.end_offset


def _answer(index: int, outcome: AppendOutcome) -> ProduceResponsePartition:
    if outcome.error is ErrorCode.NONE:
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
    broker: Broker, request: ProduceRequest, response: ProduceResponse, pending: list[_Pending]
) -> ProduceResponse:
    """Finish the answers that wait: first the disk, then, for acks=all, the replicas."""
    for part in pending:
        if part.outcome.written is not None:
            try:
                await asyncio.shield(part.outcome.written)
            except OSError as error:
                _refuse(part.answer, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if request.acks == ACKS_ALL:
        waiting = [part for part in pending if part.answer.error_code == ErrorCode.NONE]
        if waiting:
            wait = _ReplicationWait(waiting)
            if not wait.is_complete():
                keys = [part.replica.where for part in waiting]
                broker.produce_purgatory.wait(keys, request.timeout_ms, wait)
                await wait.done
            wait.judge()
    return response


class _ReplicationWait:
    """Waits until every partition of a produce is acknowledged, or lost its leadership."""

    __slots__ = ("_epochs", "_parts", "done")

    def __init__(self, parts: list[_Pending]) -> None:
        self._parts = parts
        self._epochs = [part.replica.partition.leader_epoch for part in parts]
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_complete(self) -> bool:
        return all(
            part.replica.partition.acknowledged(part.outcome.end_offset, epoch) is not None
            for part, epoch in zip(self._parts, self._epochs, strict=True)
        )

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def judge(self) -> None:
        """Put the errors of what was not acknowledged into the answers."""
        for part, epoch in zip(self._parts, self._epochs, strict=True):
            code = part.replica.partition.acknowledged(part.outcome.end_offset, epoch)
            if code is None:
                code = ErrorCode.REQUEST_TIMED_OUT
            if code is not ErrorCode.NONE:
                _refuse(part.answer, code, code.message)


def _refuse(answer: ProduceResponsePartition, code: ErrorCode, message: str) -> None:
    answer.error_code = code
    answer.error_message = message
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
