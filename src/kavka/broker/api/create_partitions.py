"""CreatePartitions: topics grow, they never shrink."""

from __future__ import annotations

from collections import Counter

from kavka.broker.control.controller import Controller
from kavka.broker.control.topics import Topics
from kavka.broker.quotas.quota_manager import QuotaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.controller.topics import TopicRefusal
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopic,
)

_FIRST_STRICT = 3
"""The first version with THROTTLING_QUOTA_EXCEEDED."""


async def handle(
    quotas: QuotaManager,
    topics: Topics,
    controller: Controller,
    context: RequestContext,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse:
    """Add partitions to each topic up to the requested count, or return why not; a topic has one result."""
    pace = context.pace
    named, distinct = await _by_name(request.topics, pace)
    results = []
    request.topics = []
    context.begin_wait()
    changes = quotas.topic_changes(context, strict_since=_FIRST_STRICT)
    for topic in distinct:
        refusal: TopicRefusal | None
        if named[topic.name] > 1:
            refusal = TopicRefusal(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        elif controller.is_active and not context.allows(
            AclOperation.ALTER, AclResourceType.TOPIC, topic.name
        ):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refusal = TopicRefusal(code, "The topic authorization is failed.")
        else:
            given = None if topic.assignments is None else [a.broker_ids for a in topic.assignments]
            refusal = await topics.create_partitions(
                topic.name,
                topic.count,
                given,
                validate_only=request.validate_only,
                timeout_ms=request.timeout_ms,
                accept=changes.accept,
            )
        code = ErrorCode.NONE if refusal is None else refusal.code
        message = None if refusal is None else error_message(refusal.message)
        results.append(
            CreatePartitionsResponseTopic(name=topic.name, error_code=code, error_message=message)
        )
        if pace.is_over():
            await pace.rest()
    changes.throttle()
    return CreatePartitionsResponse(results=results)


async def _by_name(
    topics: list[CreatePartitionsRequestTopic], pace: Pace
) -> tuple[Counter[str], list[CreatePartitionsRequestTopic]]:
    """Return how often each topic is named, and the last that is said of each."""
    named: Counter[str] = Counter()
    distinct: dict[str, CreatePartitionsRequestTopic] = {}
    for each in topics:
        named[each.name] += 1
        distinct[each.name] = each
        if pace.is_over():
            await pace.rest()
    return named, list(distinct.values())
