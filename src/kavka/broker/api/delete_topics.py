"""DeleteTopics: by name, or by topic id from version 6 on."""

from __future__ import annotations

import asyncio
from collections import Counter

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.control.controller import Controller
from kavka.broker.control.topics import Topics, over_quota
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.quotas.quota_manager import QuotaManager, TopicChanges
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.controller.topics import TopicRefusal
from kavka.errors import ErrorCode, error_message
from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)

_AT_ONCE = 64
_FIRST_DISABLED = 3
"""The first version with TOPIC_DELETION_DISABLED."""
_FIRST_STRICT = 5
"""The first version with THROTTLING_QUOTA_EXCEEDED."""


class Handler:
    """DeleteTopics: finds the topics, and asks the controller."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        quotas: QuotaManager,
        topics: Topics,
        controller: Controller,
    ) -> None:
        """Take the parts that it works with."""
        self._config = config
        self._metadata = metadata
        self._quotas = quotas
        self._topics = topics
        self._controller = controller

    async def handle(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> DeleteTopicsResponse:
        """Delete each topic; one that is named twice, or by name and id at once, is left as it is."""
        pace = context.pace
        named: Counter[str | bytes] = Counter()
        distinct: dict[tuple[str | None, bytes], DeleteTopicsRequestTopic] = {}
        for name in () if request.topics else request.topic_names:
            named[name] += 1
            distinct[name, NO_TOPIC_ID] = DeleteTopicsRequestTopic(name=name)
            if pace.is_over():
                await pace.rest()
        for topic in request.topics:
            named[self._name(topic)] += 1
            distinct[topic.name, topic.topic_id] = topic
            if pace.is_over():
                await pace.rest()
        wanted = list(distinct.values())
        results: list[DeleteTopicsResponseTopic] = []
        request.topics, request.topic_names = [], []
        context.begin_wait()
        changes = self._quotas.topic_changes(context, strict_since=_FIRST_STRICT)
        for at in range(0, len(wanted), _AT_ONCE):
            # Some together: their replicas are stopped by the same requests.
            some = wanted[at : at + _AT_ONCE]
            counts = [named[self._name(topic)] for topic in some]
            results += await asyncio.gather(
                *(
                    self._delete_one(context, request, topic, count, changes)
                    for topic, count in zip(some, counts, strict=True)
                )
            )
            if pace.is_over(len(some)):
                await pace.rest()
        changes.throttle()
        return DeleteTopicsResponse(responses=results)

    async def _delete_one(
        self,
        context: RequestContext,
        request: DeleteTopicsRequest,
        topic: DeleteTopicsRequestTopic,
        count: int,
        changes: TopicChanges,
    ) -> DeleteTopicsResponseTopic:
        result = DeleteTopicsResponseTopic(name=topic.name, topic_id=TopicId(topic.topic_id))
        refusal: TopicRefusal | None
        if not self._controller.is_active:
            code = ErrorCode.NOT_CONTROLLER
            refusal = TopicRefusal(code, code.message)
        elif not self._config.flag("delete.topic.enable"):
            is_new = context.version >= _FIRST_DISABLED
            code = ErrorCode.TOPIC_DELETION_DISABLED if is_new else ErrorCode.INVALID_REQUEST
            refusal = TopicRefusal(code, code.message)
        else:
            # Before repetitions: that an id and a name are of one topic is not for a client that may not describe it.
            refusal = _misuse(topic, 1) or self._unauthorized(context, result)
            refusal = refusal or _misuse(topic, count)
            refusal = refusal or await self._delete(result, request.timeout_ms, changes)
        if refusal is not None:
            result.error_code = refusal.code
            result.error_message = error_message(refusal.message)
        return result

    def _name(self, topic: DeleteTopicsRequestTopic) -> str | bytes:
        """Return the name of a topic, or its id when the name is unknown."""
        if topic.name is not None:
            return topic.name
        return self._metadata.name_of(TopicId(topic.topic_id)) or topic.topic_id

    def _unauthorized(
        self, context: RequestContext, result: DeleteTopicsResponseTopic
    ) -> TopicRefusal | None:
        """Return why the client may not delete a topic.

        The name of one by its id is not in the response of a client that may not describe it.
        """
        if context.authorizer is None:
            return None
        name = result.name or self._metadata.name_of(TopicId(result.topic_id))
        if name is None:
            return None  # there is no such id
        kind, by_id = AclResourceType.TOPIC, result.name is None
        if by_id and context.allows(AclOperation.DESCRIBE, kind, name, is_asked=False):
            result.name = name
        if context.allows(AclOperation.DELETE, kind, name):
            if by_id:
                result.name = None
            return None
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return TopicRefusal(code, code.message)

    async def _delete(
        self,
        result: DeleteTopicsResponseTopic,
        timeout_ms: int,
        changes: TopicChanges,
    ) -> TopicRefusal | None:
        """Delete the topic of a response, which then has its name and its id."""
        name = result.name
        if name is None:
            name = self._metadata.name_of(TopicId(result.topic_id))
            if name is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                return TopicRefusal(code, code.message)
        topic = self._metadata.topics.get(name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            refusal: TopicRefusal | None = TopicRefusal(missing, missing.message)
        elif not changes.accept(len(topic.partitions)):
            refusal = over_quota()
        else:
            refusal = await self._topics.delete(name, topic.topic_id, timeout_ms)
        if refusal is not None:
            by_id = result.name is None and refusal.code is missing
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return TopicRefusal(code, code.message) if by_id else refusal
        assert topic is not None
        result.name, result.topic_id = name, topic.topic_id
        return None


def _misuse(topic: DeleteTopicsRequestTopic, count: int) -> TopicRefusal | None:
    """Return what is wrong with the request itself."""
    has_id = TopicId(topic.topic_id) != NO_TOPIC_ID
    if topic.name is not None and has_id:
        message = "You may not specify both topic name and topic id."
    elif topic.name is None and not has_id:
        message = "Neither topic name nor id were specified."
    elif count > 1:
        message = "Duplicate topic id." if has_id else "Duplicate topic name."
    else:
        return None
    return TopicRefusal(ErrorCode.INVALID_REQUEST, message)
