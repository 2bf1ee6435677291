"""Metadata: brokers, topics, leaders. The one API that may create topics on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.control.topics import Topics
from kavka.broker.metadata.cache import (
    INTERNAL_TOPICS,
    NO_LEADER,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
)
from kavka.broker.metadata.encoded_topics import EncodedTopic, Form, pieces
from kavka.broker.quotas.quota_manager import NEVER_STRICT, QuotaManager
from kavka.broker.requests.authorized_operations import cluster_operations, topic_operations
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.pace import Slices
from kavka.broker.requests.session import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.core.controller.topics import bad_name
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.io import Clock, Sendable
from kavka.wire.frame import EncodedResponse, encode_response
from kavka.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.wire.metadata_response import with_topics

if TYPE_CHECKING:
    from kavka.broker.metadata.encoded_topics import EncodedTopics


_DESCRIBE, _TOPIC = AclOperation.DESCRIBE, AclResourceType.TOPIC
_FIRST_BY_TOPIC_ID = 12
_MAX_UNREACHABLE_WAIT_MS = 200
_MAX_UPDATE_WAIT_MS = 2000
_NOT_ASKED = -(2**31)
"""For operations, as in the message."""
_COMPLETE = object()
_MAX_CREATED = 1000
"""Maximum of topics that one request creates; a client repeats the request for more."""


MetadataResult = MetadataResponse | EncodedResponse


class Handler:
    """Metadata: brokers, topics and partitions as this broker knows them."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        slices: Slices,
        metadata: MetadataCache,
        quotas: QuotaManager,
        topics: Topics,
        encoded_topics: EncodedTopics,
    ) -> None:
        """Take the parts; `topics` creates those that are missing."""
        self._config = config
        self._clock = clock
        self._slices = slices
        self._metadata = metadata
        self._quotas = quotas
        self._topics = topics
        self._encoded_topics = encoded_topics

    def handle(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResult | SecondStage:
        """Respond at once, or after the topics that are asked for and missing have been created."""
        if self._has_expected_topics(context, request):
            return SecondStage(self._respond_when_updated(context, request))
        if self._metadata.has_unreachable and self._awaits_leaders(context, request):
            return SecondStage(self._respond_when_reachable(context, request))
        return self._respond_now(context, request)

    def _has_expected_topics(self, context: RequestContext, request: MetadataRequest) -> bool:
        """Return whether this broker has just started, and expects an update of the requested topics.

        A topic that the client may not describe is not waited for: the wait would say that it exists.
        """
        metadata = self._metadata
        if metadata.controller_id == NO_LEADER:
            return True
        expected = metadata.expected_topics(self._clock.tick_ms())
        if not expected or request.topics is None:
            return bool(expected)
        return any(
            topic.name is None or (topic.name in expected and _may_list(context, topic.name))
            for topic in request.topics
        )

    async def _respond_when_updated(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResult:
        """Wait for the first UpdateMetadata: a broker that has just started knows neither topics nor brokers.

        librdkafka does not ask again when the controller is not in a response, and fails what was to be sent to a topic
        that is unknown.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_UPDATE_WAIT_MS / 1000):
                while self._has_expected_topics(context, request):
                    await self._metadata.next_change()
        result = self._respond_now(context, request)
        return await result if isinstance(result, SecondStage) else result

    def _awaits_leaders(self, context: RequestContext, request: MetadataRequest) -> bool:
        now_ms = self._clock.tick_ms()
        return has_unreachable_leaders(self._metadata, now_ms, context, request)

    async def _respond_when_reachable(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResult:
        """Wait a little for the new leaders: a client that gets a dead one retries much later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_UNREACHABLE_WAIT_MS / 1000):
                while self._awaits_leaders(context, request):
                    await self._metadata.next_change()
        result = self._respond_now(context, request)
        return await result if isinstance(result, SecondStage) else result

    def _respond_now(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResult | SecondStage:
        if context.large is not None and request.topics is not None:
            return SecondStage(self._respond_large(context, request))
        known = self._all_known(context, request)
        if known is not None:
            return self._respond_known(context, request, known)
        missing = (
            self._to_create(context, _distinct(request))
            if request.allow_auto_topic_creation
            else []
        )
        if missing and self._config.flag("auto.create.topics.enable"):
            return SecondStage(self._create_and_respond(context, request, missing))
        return self._response(
            context,
            request,
            [self._describe_requested(context, topic, request) for topic in _distinct(request)],
        )

    async def _create_and_respond(
        self, context: RequestContext, request: MetadataRequest, missing: list[str]
    ) -> MetadataResponse:
        """Respond after the creation; why a topic was not created is its error."""
        codes = await asyncio.gather(*(self._create(context, name) for name in missing))
        refused = dict(zip(missing, codes, strict=True))
        topics = [self._describe_requested(context, topic, request) for topic in _distinct(request)]
        for topic in topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name in refused:
                topic.error_code = refused[topic.name]
        return self._response(context, request, topics)

    def _all_known(
        self, context: RequestContext, request: MetadataRequest
    ) -> list[TopicMetadata] | None:
        """Return the topics that are asked for; None when there is something else to say of one."""
        topics, version = self._metadata.topics, context.version
        is_restricted = context.authorizer is not None
        if request.topics is None or (version == 0 and not request.topics):
            if not is_restricted:
                return list(topics.values())
            return [topic for name, topic in topics.items() if _may_list(context, name)]
        found = []
        for wanted in _distinct(request):
            name = wanted.name
            if wanted.topic_id != NO_TOPIC_ID:
                is_by_id = version >= _FIRST_BY_TOPIC_ID
                name = self._metadata.name_of(TopicId(wanted.topic_id)) if is_by_id else None
            # The rights first, here and in `_to_create`: or the time of a refusal would say whether a topic exists.
            if name is None or (is_restricted and not _may_list(context, name)):
                return None
            topic = topics.get(name)
            if topic is None:
                return None
            found.append(topic)
        return found

    def _respond_known(
        self,
        context: RequestContext,
        request: MetadataRequest,
        known: list[TopicMetadata],
    ) -> EncodedResponse | SecondStage:
        """Respond with topics that are kept encoded, now, or after what is missing was encoded piece by piece."""
        operations = _NOT_ASKED
        if request.include_topic_authorized_operations:
            if context.authorizer is not None:  # they differ between topics
                return SecondStage(self._respond_with_operations(context, request, known))
            operations = topic_operations(context, "")
        topics = self._encoded_topics.take(known, Form(context.version, operations))
        (frame,) = encode_response(
            self._response(context, request, []), context.version, context.header.correlation_id
        )
        missing = pieces(topics)
        if next(missing, _COMPLETE) is _COMPLETE:
            return _with_topics(context, frame, topics)
        return SecondStage(_respond_piecewise(context, frame, topics, missing))

    async def _respond_with_operations(
        self,
        context: RequestContext,
        request: MetadataRequest,
        known: list[TopicMetadata],
    ) -> MetadataResponse:
        """Respond with topics, and with what the client may do with each, in slices of time."""
        pace = self._slices.pace()
        topics = []
        for topic in known:
            topics.append(self._known(context, topic, request))
            if pace.is_over(8 + len(topic.partitions)):
                await pace.rest()
        return self._response(context, request, topics)

    async def _respond_large(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResponse:
        """Respond to a request for many topics in slices of time; of those that are missing some are created."""
        pace = context.pace
        distinct: dict[str | bytes | None, MetadataRequestTopic] = {}
        for topic in request.topics or ():
            distinct[_key(topic)] = topic
            if pace.is_over():
                await pace.rest()
        refused: dict[str | None, ErrorCode] = {}
        if request.allow_auto_topic_creation and self._config.flag("auto.create.topics.enable"):
            for topic in distinct.values():
                for name in self._to_create(context, (topic,)):
                    refused[name] = await self._create(context, name)
                if pace.is_over():
                    await pace.rest()
                if len(refused) == _MAX_CREATED:
                    break
        topics = []
        for topic in distinct.values():
            result = self._describe_requested(context, topic, request)
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name in refused:
                result.error_code = refused[topic.name]
            topics.append(result)
            if pace.is_over(1 + len(result.partitions)):
                await pace.rest()
        return self._response(context, request, topics)

    def _to_create(
        self, context: RequestContext, wanted: Iterable[MetadataRequestTopic]
    ) -> list[str]:
        return [
            topic.name
            for topic in wanted
            if topic.name is not None
            and topic.topic_id == NO_TOPIC_ID
            and _may_list(context, topic.name)
            and topic.name not in self._metadata.topics
            and not self._metadata.is_expected(topic.name, self._clock.tick_ms())
            and bad_name(topic.name) is None
        ]

    async def _create(self, context: RequestContext, name: str) -> ErrorCode:
        """Create a topic because the client asked for it; return the error of its response."""
        create = AclOperation.CREATE
        if not (
            context.allows(create, AclResourceType.CLUSTER, CLUSTER_NAME, is_asked=False)
            or context.allows(create, AclResourceType.TOPIC, name)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        changes = self._quotas.topic_changes(context, strict_since=NEVER_STRICT)
        code = await self._topics.create_automatically(name, changes.accept)
        changes.throttle()
        return code

    def _response(
        self,
        context: RequestContext,
        request: MetadataRequest,
        topics: list[MetadataResponseTopic],
    ) -> MetadataResponse:
        metadata = self._metadata
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=live.broker_id, host=endpoint.host, port=endpoint.port, rack=live.rack
                )
                for live, endpoint in metadata.brokers_on_listener(context.listener_name)
            ],
            cluster_id=metadata.cluster_id,
            controller_id=metadata.controller_id,
            topics=topics,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(context)
        return response

    def _describe_requested(
        self,
        context: RequestContext,
        wanted: MetadataRequestTopic,
        request: MetadataRequest,
    ) -> MetadataResponseTopic:
        """Return a topic that was asked for by name, or by id when it has no name."""
        topic_id, name, version = TopicId(wanted.topic_id), wanted.name, context.version
        if version < _FIRST_BY_TOPIC_ID and (name is None or topic_id != NO_TOPIC_ID):
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name or "")
        if topic_id != NO_TOPIC_ID:
            name = self._metadata.name_of(topic_id)
            if name is None:
                return MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
        if not context.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name or ""):
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                name=name if topic_id == NO_TOPIC_ID else None,
                topic_id=topic_id,
            )
        topic = self._metadata.topics.get(name or "")
        if topic is not None:
            return self._known(context, topic, request)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name is not None and self._metadata.is_expected(name, self._clock.tick_ms()):
            code = ErrorCode.LEADER_NOT_AVAILABLE  # it exists, and is published soon
        if bad_name(name or "") is not None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(
            error_code=code, name=name or "", is_internal=name in INTERNAL_TOPICS
        )

    def _known(
        self, context: RequestContext, topic: TopicMetadata, request: MetadataRequest
    ) -> MetadataResponseTopic:
        result = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[
                self._partition(index, partition_metadata)
                for index, partition_metadata in enumerate(topic.partitions)
            ],
        )
        if request.include_topic_authorized_operations:
            result.topic_authorized_operations = topic_operations(context, topic.name)
        return result

    def _partition(
        self, index: int, partition_metadata: PartitionMetadata
    ) -> MetadataResponsePartition:
        has_leader = partition_metadata.leader in self._metadata.brokers
        return MetadataResponsePartition(
            error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=partition_metadata.leader if has_leader else NO_LEADER,
            leader_epoch=partition_metadata.leader_epoch,
            replica_nodes=list(partition_metadata.replicas),
            isr_nodes=list(partition_metadata.in_sync_replicas),
            offline_replicas=[*self._metadata.offline_replicas_of(partition_metadata)],
        )


def has_unreachable_leaders(
    metadata: MetadataCache, now_ms: int, context: RequestContext, request: MetadataRequest
) -> bool:
    """Return whether a partition that is asked for has a leader that was lost a moment ago."""
    topics: Iterable[TopicMetadata]
    if request.topics is None:
        topics = metadata.topics.values()
    else:
        names = {
            topic.name or metadata.name_of(TopicId(topic.topic_id)) for topic in _distinct(request)
        }
        topics = [
            metadata.topics[name]
            for name in names
            if name is not None and name in metadata.topics and _may_list(context, name)
        ]
    leaders = {partition.leader for topic in topics for partition in topic.partitions}
    return any(metadata.is_unreachable(leader, now_ms) for leader in leaders)


async def _respond_piecewise(
    context: RequestContext,
    frame: Sendable,
    topics: list[EncodedTopic],
    missing: Iterator[None],
) -> EncodedResponse:
    for _ in missing:
        await asyncio.sleep(0)
    return _with_topics(context, frame, topics)


def _with_topics(
    context: RequestContext, frame: Sendable, topics: list[EncodedTopic]
) -> EncodedResponse:
    leaderless = sum(topic.leaderless for topic in topics)
    if leaderless:
        context.count_error(ErrorCode.LEADER_NOT_AVAILABLE, leaderless)
    assert isinstance(frame, (bytes, bytearray))
    return with_topics(frame, context.version, [topic.data or b"" for topic in topics])


def _distinct(request: MetadataRequest) -> Iterable[MetadataRequestTopic]:
    """Return the topics that are asked for, each once."""
    return {_key(topic): topic for topic in request.topics or ()}.values()


def _key(topic: MetadataRequestTopic) -> str | bytes | None:
    """Return the key of a requested topic: its id when it has one, with any name beside it."""
    return topic.name if topic.topic_id == NO_TOPIC_ID else topic.topic_id


def _may_list(context: RequestContext, topic: str) -> bool:
    """Return whether the client may describe a topic, without an entry in the audit if not."""
    return context.allows(_DESCRIBE, _TOPIC, topic, is_asked=False)
