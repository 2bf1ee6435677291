"""CreateTopics: each topic is created, validated or refused by itself."""

from __future__ import annotations

import asyncio
from collections import Counter

from kavka.broker.configs.effective_configs import ConfigEntry, EffectiveConfigs
from kavka.broker.configs.overrides import check_new_topic_overrides
from kavka.broker.control.controller import Controller
from kavka.broker.control.topics import CreatedTopic, Topics
from kavka.broker.metadata.known_topics import NOT_TOPICS
from kavka.broker.quotas.quota_manager import QuotaManager, TopicChanges
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.session import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.core.controller.topics import MAX_PARTITIONS, USE_DEFAULT, NewTopic, TopicRefusal
from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)

_AT_ONCE = 64
_FIRST_STRICT = 6
"""The first version with THROTTLING_QUOTA_EXCEEDED."""


class Handler:
    """CreateTopics: checks, and asks the controller."""

    def __init__(
        self,
        effective_configs: EffectiveConfigs,
        slices: Slices,
        quotas: QuotaManager,
        topics: Topics,
        controller: Controller,
    ) -> None:
        """Take the parts that it works with."""
        self._effective_configs = effective_configs
        self._slices = slices
        self._quotas = quotas
        self._topics = topics
        self._controller = controller

    async def handle(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsResponse:
        """Create topics in the order of the request; a name that stands twice is refused each time."""
        named = Counter(topic.name for topic in request.topics)
        excess = self._excess(request)
        changes = self._quotas.topic_changes(context, strict_since=_FIRST_STRICT)
        pace = self._slices.pace()
        results: list[CreateTopicsResponseTopic] = []
        context.begin_wait()
        while request.topics:
            # The controller learns of some together: they share LeaderAndIsr and UpdateMetadata requests.
            some = request.topics[:_AT_ONCE]
            del request.topics[:_AT_ONCE]  # each chunk may wait long
            results += await asyncio.gather(
                *(
                    self._create_one(context, request, topic, excess, named[topic.name], changes)
                    for topic in some
                )
            )
            if pace.is_over(len(some)):
                await pace.rest()
        changes.throttle()
        return CreateTopicsResponse(topics=results)

    async def _create_one(
        self,
        context: RequestContext,
        request: CreateTopicsRequest,
        topic: CreateTopicsRequestTopic,
        excess: TopicRefusal | None,
        count: int,
        changes: TopicChanges,
    ) -> CreateTopicsResponseTopic:
        unauthorized = self._unauthorized(context, topic.name, count)
        outcome: CreatedTopic | TopicRefusal | None
        outcome = unauthorized or excess or _misuse(topic.name, count)
        if outcome is None:
            outcome = await self._topics.create(
                _wanted(topic),
                validate_only=request.validate_only,
                timeout_ms=request.timeout_ms,
                accept=changes.accept,
            )
        shows = context.allows(
            AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name, is_asked=False
        )
        if isinstance(outcome, TopicRefusal):
            result = _refused(topic.name, outcome)
        else:
            result = self._accepted(request, topic, outcome, shows=shows)
        if not shows and (unauthorized is not None or not result.error_code):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result

    def _unauthorized(self, context: RequestContext, name: str, count: int) -> TopicRefusal | None:
        """Return why the client may not create a topic of this name; a name that stands twice is another error."""
        if count > 1 or context.authorizer is None or not self._controller.is_active:
            return None
        create = AclOperation.CREATE
        if context.allows(
            create, AclResourceType.CLUSTER, CLUSTER_NAME, is_asked=False
        ) or context.allows(create, AclResourceType.TOPIC, name):
            return None
        return TopicRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")

    def _accepted(
        self,
        request: CreateTopicsRequest,
        topic: CreateTopicsRequestTopic,
        outcome: CreatedTopic,
        *,
        shows: bool,
    ) -> CreateTopicsResponseTopic:
        """Return the response of a topic that is created, or could be; its settings where the client may see them."""
        if not shows:
            return CreateTopicsResponseTopic(name=topic.name, topic_id=outcome.topic_id)
        rows = self._rows(topic, validate_only=request.validate_only)
        return _created(topic.name, outcome, rows)

    def _excess(self, request: CreateTopicsRequest) -> TopicRefusal | None:
        """Return why nothing is created of a request for too many partitions, as Kafka's KRaft controller says it."""
        default = self._effective_configs.broker_integer("num.partitions")
        total = 0
        for topic in request.topics:
            asked = default if topic.num_partitions == USE_DEFAULT else topic.num_partitions
            total += len(topic.assignments) or max(1, asked)
        if total <= MAX_PARTITIONS:
            return None
        message = f"Excessively large number of partitions per request: {total}."
        return TopicRefusal(ErrorCode.POLICY_VIOLATION, message)

    def _rows(self, topic: CreateTopicsRequestTopic, *, validate_only: bool) -> list[ConfigEntry]:
        """Return the settings of a topic that was created, or that could be."""
        if not validate_only:
            return self._effective_configs.describe_topic(topic.name)
        overrides = {config.name: config.value for config in topic.configs}
        return self._effective_configs.describe_new_topic(
            check_new_topic_overrides(self._effective_configs, overrides)
        )


def _misuse(name: str, count: int) -> TopicRefusal | None:
    """Return what is wrong with the request itself."""
    if name in NOT_TOPICS:
        message = f"Creation of internal topic {name} is prohibited."
        return TopicRefusal(ErrorCode.INVALID_REQUEST, message)
    if count > 1:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
    return None


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
        name=name,
        error_code=refusal.code,
        error_message=error_message(refusal.message),
        configs=[],
    )


def _created(
    name: str, created: CreatedTopic, rows: list[ConfigEntry]
) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(
        name=name,
        topic_id=created.topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=[
            CreateTopicsResponseConfig(
                name=row.setting.name,
                value=row.value,
                read_only=row.read_only,
                config_source=row.source,
                is_sensitive=row.setting.is_sensitive,
            )
            for row in rows
        ],
    )
