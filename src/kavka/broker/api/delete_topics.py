"""DeleteTopics: by name, or by topic id from version 6 on."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic; UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID for those that are not there."""
    wanted = request.topics or [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[await _delete(broker, topic) for topic in wanted])


async def _delete(broker: Broker, topic: DeleteTopicsRequestTopic) -> DeleteTopicsResponseTopic:
    topic_id = TopicId(topic.topic_id)
    answer = DeleteTopicsResponseTopic(name=topic.name, topic_id=topic_id)
    name = topic.name
    if topic_id != NO_TOPIC_ID:
        if name is not None:
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = "You may not specify both topic name and topic id."
            return answer
        name = broker.metadata.name_of(topic_id)
    if name is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    elif name not in broker.metadata.topics:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not broker.config.flag("delete.topic.enable"):
        answer.error_code = ErrorCode.TOPIC_DELETION_DISABLED
    else:
        answer.name, answer.topic_id = name, broker.metadata.topics[name].topic_id
        if not await broker.controller.delete_topic(name):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if answer.error_code:
        answer.error_message = ErrorCode.of(answer.error_code).message
    return answer
