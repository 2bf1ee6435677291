"""Fetch requests of a consumer, and the partitions of their responses. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kavka.client.consumer.batches import Deserializers
from kavka.client.consumer.fetch.session import CLOSING_EPOCH, SessionRequest
from kavka.client.consumer.subscription import ResetPolicy
from kavka.client.metadata import MetadataCache
from kavka.ids import TopicId, TopicPartition
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)


class FetchSettings(NamedTuple):
    """Settings of the fetcher."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    max_partition_bytes: int
    read_committed: bool
    check_crcs: bool
    reset: ResetPolicy | None
    rack: str
    request_timeout_ms: int
    metadata_max_age_ms: int
    deserializers: Deserializers


def fetch_request(what: SessionRequest, settings: FetchSettings, wait_ms: int) -> FetchRequest:
    """Return the request that says `what` in a session."""
    topics: dict[str, FetchRequestTopic] = {}
    for topic_partition, want in what.added.items():
        topic = topics.get(topic_partition.topic)
        if topic is None:
            topic = FetchRequestTopic(
                topic=topic_partition.topic, topic_id=want.topic_id, partitions=[]
            )
            topics[topic_partition.topic] = topic
        topic.partitions.append(
            FetchRequestPartition(
                partition=topic_partition.partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    forgotten: dict[str, FetchRequestForgottenTopic] = {}
    for topic_partition, topic_id in what.forgotten.items():
        dropped = forgotten.setdefault(
            topic_partition.topic,
            FetchRequestForgottenTopic(
                topic=topic_partition.topic, topic_id=topic_id, partitions=[]
            ),
        )
        dropped.partitions.append(topic_partition.partition)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=int(settings.read_committed),
        session_id=what.session_id,
        session_epoch=what.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
        rack_id=settings.rack,
    )


def closing_request(session_id: int) -> FetchRequest:
    """Return the last request of a session, which ends it."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=CLOSING_EPOCH,
        topics=[],
        forgotten_topics_data=[],
    )


def parts_of(
    response: FetchResponse, metadata: MetadataCache, asked: Collection[TopicPartition]
) -> dict[TopicPartition, FetchResponsePartition]:
    """Return what is said of each partition. Topics named by an id that is no longer known keep an empty name."""
    names = {}
    for topic_partition in asked:
        topic = metadata.topics.get(topic_partition.topic)
        if topic is not None:
            names[topic.topic_id] = topic_partition.topic
    return {
        TopicPartition(
            topic.topic or names.get(TopicId(topic.topic_id), ""), part.partition_index
        ): part
        for topic in response.responses
        for part in topic.partitions
    }
