"""ElectLeaders: the preferred leader, or any live replica, takes over now (KIP-183, KIP-460)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from kavka.broker.control.controller import Controller
from kavka.broker.control.controller_term import NotControllerError
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.core.controller.events import (
    ElectionKind,
    ElectionRequested,
)
from kavka.core.controller.replies import (
    PartitionsReply,
    Verdict,
)
from kavka.core.machine import Token
from kavka.errors import ErrorCode, error_message
from kavka.ids import TopicPartition
from kavka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)

_AT_ONCE = 500


async def handle(
    controller: Controller, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect leaders, and respond when the metadata of this broker has them."""
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    pace = context.pace
    asked = None
    if request.topic_partitions is not None:
        asked = await _distinct(request.topic_partitions, pace)
    try:
        rows = await _elect(controller, kind, asked, pace)
    except NotControllerError:
        code = ErrorCode.NOT_CONTROLLER
        if context.version > 0:
            return ElectLeadersResponse(error_code=code)
        rows = _Rows()
        for topic_partition in asked or ():
            rows.add(topic_partition, Verdict(code, code.message))
            if pace.is_over():
                await pace.rest()
        return rows.response()
    request.topic_partitions, asked = None, None  # it may wait long
    context.begin_wait()
    try:
        async with asyncio.timeout(max(0, request.timeout_ms) / 1000):
            await controller.flushed()
    except TimeoutError:
        for row in rows.elected():
            row.error_code = ErrorCode.REQUEST_TIMED_OUT
            row.error_message = ErrorCode.REQUEST_TIMED_OUT.message
            if pace.is_over():
                await pace.rest()
    return rows.response()


async def _distinct(topics: list[ElectLeadersRequestTopic], pace: Pace) -> list[TopicPartition]:
    """Return the partitions that are asked for, each once."""
    asked: dict[TopicPartition, None] = {}
    for topic in topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partitions:
            asked[TopicPartition(topic.topic, index)] = None
            if pace.is_over():
                await pace.rest()
    return list(asked)


async def _elect(
    controller: Controller, kind: ElectionKind, asked: list[TopicPartition] | None, pace: Pace
) -> _Rows:
    """Elect leaders, of some partitions at a time, or of all. Raise NotControllerError."""
    rows = _Rows()
    for at in range(0, max(1, len(asked or ())), _AT_ONCE):
        some = None if asked is None else asked[at : at + _AT_ONCE]
        reply: PartitionsReply = await controller.submit_and_wait(partial(_event, kind, some))
        for topic_partition, verdict in reply.verdicts.items():
            rows.add(topic_partition, verdict)
            if pace.is_over():
                await pace.rest()
    return rows


def _event(
    kind: ElectionKind, some: list[TopicPartition] | None, token: Token
) -> ElectionRequested:
    return ElectionRequested(token, kind, some)


class _Rows:
    """The rows of a response: what the controller says is not kept beside them."""

    def __init__(self) -> None:
        self._topics: dict[str, ElectLeadersResponseTopic] = {}

    def add(self, topic_partition: TopicPartition, verdict: Verdict) -> None:
        topic = self._topics.get(topic_partition.topic)
        if topic is None:
            topic = self._topics[topic_partition.topic] = ElectLeadersResponseTopic(
                topic=topic_partition.topic
            )
        topic.partition_result.append(
            ElectLeadersResponsePartition(
                partition_id=topic_partition.partition,
                error_code=verdict.code,
                error_message=verdict.message and error_message(verdict.message),
            )
        )

    def elected(self) -> Iterator[ElectLeadersResponsePartition]:
        """Yield the rows of partitions that have got a leader."""
        for topic in self._topics.values():
            yield from (row for row in topic.partition_result if not row.error_code)

    def response(self) -> ElectLeadersResponse:
        return ElectLeadersResponse(replica_election_results=list(self._topics.values()))
