"""ElectLeaders: the preferred leader, or any live replica, takes over now (KIP-183, KIP-460)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kavka.broker.broker import Broker
from kavka.broker.control.reign import NotController
from kavka.broker.dispatch import RequestContext
from kavka.core.controller.events import (
    ElectionAsked,
    ElectionKind,
)
from kavka.core.controller.replies import (
    PartitionsReply,
    Verdict,
)
from kavka.errors import ErrorCode, error_message
from kavka.ids import TopicPartition
from kavka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect, and answer when this broker shows the new leaders."""
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = None
    if request.topic_partitions is not None:
        asked = [TopicPartition(t.topic, p) for t in request.topic_partitions for p in t.partitions]
    try:
        reply: PartitionsReply = await broker.controller.ask(
            lambda token: ElectionAsked(token, kind, asked)
        )
    except NotController:
        code = ErrorCode.NOT_CONTROLLER
        if context.version > 0:
            return ElectLeadersResponse(error_code=code)
        refused = dict.fromkeys(asked or (), Verdict(code, code.message))
        return ElectLeadersResponse(replica_election_results=_rows(refused))
    verdicts = dict(reply.verdicts)
    try:
        async with asyncio.timeout(max(0, request.timeout_ms) / 1000):
            await broker.controller.flushed()
    except TimeoutError:
        late = Verdict(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)
        verdicts = {w: late if v.code is ErrorCode.NONE else v for w, v in verdicts.items()}
    return ElectLeadersResponse(replica_election_results=_rows(verdicts))


def _rows(verdicts: Mapping[TopicPartition, Verdict]) -> list[ElectLeadersResponseTopic]:
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
    return list(topics.values())
