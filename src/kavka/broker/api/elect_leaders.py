"""ElectLeaders: the preferred leader, or any live replica, takes over now (KIP-183, KIP-460)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from kavka.broker.broker import Broker
from kavka.broker.control.reign import NotController
from kavka.broker.dispatch import RequestContext
from kavka.broker.pace import Pace
from kavka.core.controller.events import (
    ElectionAsked,
    ElectionKind,
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
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect, and answer when this broker shows the new leaders."""
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    pace = context.pace
    asked = None
    if request.topic_partitions is not None:
        asked = await _distinct(request.topic_partitions, pace)
    try:
        verdicts = await _elect(broker, kind, asked, pace)
    except NotController:
        code = ErrorCode.NOT_CONTROLLER
        if context.version > 0:
            return ElectLeadersResponse(error_code=code)
        refused = dict.fromkeys(asked or (), Verdict(code, code.message))
        return ElectLeadersResponse(replica_election_results=await _rows(refused, pace))
    try:
        async with asyncio.timeout(max(0, request.timeout_ms) / 1000):
            await broker.controller.flushed()
    except TimeoutError:
        late = Verdict(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)
        verdicts = {w: late if v.code is ErrorCode.NONE else v for w, v in verdicts.items()}
    return ElectLeadersResponse(replica_election_results=await _rows(verdicts, pace))


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
    broker: Broker, kind: ElectionKind, asked: list[TopicPartition] | None, pace: Pace
) -> dict[TopicPartition, Verdict]:
    """Have leaders elected, for some partitions at a time, or for all. Raise NotController."""
    verdicts: dict[TopicPartition, Verdict] = {}
    for at in range(0, max(1, len(asked or ())), _AT_ONCE):
        some = None if asked is None else asked[at : at + _AT_ONCE]
        reply: PartitionsReply = await broker.controller.ask(partial(_event, kind, some))
        verdicts |= reply.verdicts
        if pace.is_over(_AT_ONCE):
            await pace.rest()
    return verdicts


def _event(kind: ElectionKind, some: list[TopicPartition] | None, token: Token) -> ElectionAsked:
    return ElectionAsked(token, kind, some)


async def _rows(
    verdicts: Mapping[TopicPartition, Verdict], pace: Pace
) -> list[ElectLeadersResponseTopic]:
    topics: dict[str, ElectLeadersResponseTopic] = {}
    for where, verdict in verdicts.items():
        topic = topics.setdefault(where.topic, ElectLeadersResponseTopic(topic=where.topic))
        topic.partition_result.append(
            ElectLeadersResponsePartition(
                partition_id=where.partition,
                error_code=verdict.code,
                error_message=verdict.message and error_message(verdict.message),
            )
        )
        if pace.is_over():
            await pace.rest()
    return list(topics.values())
