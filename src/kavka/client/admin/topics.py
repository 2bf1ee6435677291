"""Topics: create, delete, grow, list, describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.acls import authorized_operations
from kavka.client.admin.configs import ConfigEntry
from kavka.client.admin.router import Router, plain, refusal
from kavka.client.metadata import MetadataCache, TopicMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicId
from kavka.net.peer import Peer
from kavka.values import field, frozen, replace
from kavka.wire.apis import ApiKey
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from kavka.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TopicDescription = TopicMetadata
"""The result of `describe_topics` for one topic."""

_DEFAULTS_VERSION = 4
_TOPIC_STRUCTS_VERSION = 6


@frozen
class NewTopic:
    """A topic to create; -1 takes the broker's default (KIP-464).

    With `assignments` (partition to replicas, the preferred leader first) the two numbers must be left out.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | float | bool | None] = field(factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None


@frozen
class NewPartitions:
    """The count of partitions that a topic shall have, and replicas of the new ones if they matter."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A broker's description of a topic that it created; numbers are -1 before Kafka 2.4."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int
    configs: list[ConfigEntry]


async def create_topics(
    router: Router, topics: Sequence[NewTopic], validate_only: bool, timeout_ms: int | None
) -> dict[str, CreatedTopic | KafkaError]:
    """See `Admin.create_topics`."""
    topics = arguments.each("new_topics", topics, NewTopic)
    wanted = {topic.name: topic for topic in topics}

    def build(peer: Peer, names: list[str]) -> tuple[CreateTopicsRequest, int]:
        version = peer.version_of(ApiKey.CREATE_TOPICS)
        if version < _DEFAULTS_VERSION and any(
            t.assignments is None and -1 in (t.partitions, t.replication_factor) for t in topics
        ):
            detail = f"{peer.name} is too old to choose partitions and replicas: give both"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        request = CreateTopicsRequest(
            topics=[_create_topic(wanted[name]) for name in names],
            timeout_ms=router.timeout_ms(timeout_ms),
            validate_only=validate_only,
        )
        return request, version

    def outcomes(
        response: CreateTopicsResponse,
    ) -> dict[str, tuple[int, CreatedTopic | KafkaError]]:
        return {topic.name: (topic.error_code, _created(topic)) for topic in response.topics}

    found = await router.controller_each(wanted, build, outcomes, timeout_ms)
    router.cluster.mark_stale()
    return found


def _create_topic(topic: NewTopic) -> CreateTopicsRequestTopic:
    assignments = topic.assignments or {}
    return CreateTopicsRequestTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreateTopicsRequestAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in assignments.items()
        ],
        configs=[
            CreateTopicsRequestConfig(name=name, value=arguments.setting(name, value))
            for name, value in topic.configs.items()
        ],
    )


def _created(topic: CreateTopicsResponseTopic) -> CreatedTopic | KafkaError:
    error = refusal(topic.error_code, topic.error_message)
    if error is not None:
        return error
    configs = [
        ConfigEntry(c.name, c.value, c.config_source, c.is_sensitive, c.read_only)
        for c in topic.configs or ()
    ]
    return CreatedTopic(
        topic.name, TopicId(topic.topic_id), topic.num_partitions, topic.replication_factor, configs
    )


async def delete_topics(
    router: Router, names: Sequence[str], timeout_ms: int | None
) -> dict[str, KafkaError | None]:
    """See `Admin.delete_topics`."""
    wanted = arguments.names("names", names)
    limit_ms = router.timeout_ms(timeout_ms)

    def build(peer: Peer, left: list[str]) -> tuple[DeleteTopicsRequest, int]:
        version = peer.version_of(ApiKey.DELETE_TOPICS)
        if version >= _TOPIC_STRUCTS_VERSION:
            topics = [DeleteTopicsRequestTopic(name=name) for name in left]
            return DeleteTopicsRequest(topics=topics, timeout_ms=limit_ms), version
        return DeleteTopicsRequest(topic_names=left, timeout_ms=limit_ms), version

    def outcomes(response: DeleteTopicsResponse) -> dict[str, tuple[int, KafkaError | None]]:
        return {
            topic.name or "": (topic.error_code, refusal(topic.error_code, topic.error_message))
            for topic in response.responses
        }

    found = await router.controller_each(wanted, build, outcomes, timeout_ms)
    router.cluster.mark_stale()
    return found


async def create_partitions(
    router: Router,
    topics: Mapping[str, NewPartitions],
    validate_only: bool,
    timeout_ms: int | None,
) -> dict[str, KafkaError | None]:
    """See `Admin.create_partitions`."""
    for name, wanted in arguments.by("wanted", topics, str).items():
        arguments.one(f"what is wanted of {name}", wanted, NewPartitions)

    def build(peer: Peer, left: list[str]) -> tuple[CreatePartitionsRequest, None]:
        request = CreatePartitionsRequest(
            topics=[_create_partitions_request(name, topics[name]) for name in left],
            timeout_ms=router.timeout_ms(timeout_ms),
            validate_only=validate_only,
        )
        return request, None

    def outcomes(response: CreatePartitionsResponse) -> dict[str, tuple[int, KafkaError | None]]:
        return {
            topic.name: (topic.error_code, refusal(topic.error_code, topic.error_message))
            for topic in response.results
        }

    found = await router.controller_each(topics, build, outcomes, timeout_ms)
    router.cluster.mark_stale()
    return found


def _create_partitions_request(name: str, wanted: NewPartitions) -> CreatePartitionsRequestTopic:
    assignments = None
    if wanted.assignments is not None:
        assignments = [
            CreatePartitionsRequestAssignment(broker_ids=list(replicas))
            for replicas in wanted.assignments
        ]
    return CreatePartitionsRequestTopic(name=name, count=wanted.total, assignments=assignments)


async def all_topics(
    router: Router, timeout_ms: int | None, include_operations: bool = False
) -> dict[str, TopicDescription]:
    """Return every topic that can be described, internal ones too."""
    cache = await _request_metadata(router, None, timeout_ms, include_operations)
    return {name: topic for name, topic in cache.topics.items() if topic.error is ErrorCode.NONE}


async def describe_topics(
    router: Router, names: Iterable[str], include_operations: bool, timeout_ms: int | None
) -> dict[str, TopicDescription | KafkaError]:
    """See `Admin.describe_topics`."""
    wanted = arguments.names("names", names)
    cache = await _request_metadata(router, wanted, timeout_ms, include_operations)
    found: dict[str, TopicDescription | KafkaError] = {}
    for name in wanted:
        topic = cache.topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        if topic is None or code is not ErrorCode.NONE:
            found[name] = KafkaError(code, f"topic {name}: {code.message}")
        else:
            found[name] = topic
    return found


async def _request_metadata(
    router: Router, names: list[str] | None, timeout_ms: int | None, include_operations: bool
) -> MetadataCache:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_operations,
    )
    response: MetadataResponse = await router.any(plain(request), lambda _: (), timeout_ms)
    cache = MetadataCache(0)
    cache.update(response, 0, None)
    for topic in response.topics:
        if topic.name in cache.topics:
            allowed = authorized_operations(topic.topic_authorized_operations)
            known = cache.topics[topic.name]
            cache.topics[topic.name] = replace(known, authorized_operations=allowed)
    return cache
