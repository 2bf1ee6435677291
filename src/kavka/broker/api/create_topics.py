"""CreateTopics: each topic is created, validated or refused by itself."""

from __future__ import annotations

from collections import Counter

from kavka.broker.broker import Broker
from kavka.broker.controller import CreatedTopic
from kavka.broker.dispatch import RequestContext
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.errors import ErrorCode
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create topics in the order of the request; a name that stands twice is refused each time."""
    named = Counter(topic.name for topic in request.topics)
    answers = []
    for topic in request.topics:
        if named[topic.name] > 1:
            refusal = TopicRefusal(
                ErrorCode.INVALID_REQUEST,
                f"Create topics request from client contains multiple entries for the topic {topic.name}.",
            )
            answers.append(_refused(topic.name, refusal))
            continue
        outcome = await broker.controller.create_topic(
            _wanted(topic), validate_only=request.validate_only
        )
        if isinstance(outcome, TopicRefusal):
            answers.append(_refused(topic.name, outcome))
        else:
            answers.append(_created(broker, topic, outcome, validate_only=request.validate_only))
    return CreateTopicsResponse(topics=answers)


def _wanted(topic: CreateTopicsRequestTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {given.partition_index: given.broker_ids for given in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _refused(name: str, refusal: TopicRefusal) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(
        name=name, error_code=refusal.code, error_message=refusal.message, configs=[]
    )


def _created(
    broker: Broker, topic: CreateTopicsRequestTopic, created: CreatedTopic, *, validate_only: bool
) -> CreateTopicsResponseTopic:
    if validate_only:
        configs = []
    else:
        configs = [
            CreateTopicsResponseConfig(
                name=row.setting.name,
                value=row.value,
                read_only=row.read_only,
                config_source=row.source,
                is_sensitive=row.setting.is_sensitive,
            )
            for row in broker.configs.describe_topic(topic.name)
        ]
    return CreateTopicsResponseTopic(
        name=topic.name,
        topic_id=created.topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=configs,
    )
