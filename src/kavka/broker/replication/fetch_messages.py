"""Fetch messages: a follower's requests, and the partitions of any request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.core.fetch_session import FetchPartition, PartitionKey
from kavka.core.follower import SessionRequest
from kavka.net.receivers import Encode
from kavka.wire.fetch_request import FIRST_ENCODED, FollowerFetch, Named
from kavka.wire.frame import encode_request
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)

FIRST_WITH_LAST_EPOCH: Final = 12
FIRST_BY_TOPIC_ID: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15


def fetch_encoder(fetchers: FetcherContext, built: SessionRequest, version: int) -> Encode:
    """Return what encodes the Fetch request of a session."""
    if version < FIRST_ENCODED or built.forgotten:
        return partial(encode_request, _fetch_request(fetchers, built, version))
    topics: dict[bytes, list[Named]] = {}
    for (name, index), asked in built.partitions.items():
        offset, max_bytes, leader_epoch, log_start_offset, last_epoch = asked
        assert isinstance(name, bytes), "topics have ids in this version"
        row = (index, leader_epoch, offset, last_epoch, log_start_offset, max_bytes)
        topics.setdefault(name, []).append(row)
    return FollowerFetch(
        fetchers.broker_id,
        fetchers.broker_epoch(),
        fetchers.wait_ms,
        fetchers.min_bytes,
        fetchers.max_response_bytes,
        built.session_id,
        built.session_epoch,
        topics,
    ).encode


def _fetch_request(fetchers: FetcherContext, built: SessionRequest, version: int) -> FetchRequest:
    """Return the Fetch request of a session, with the broker's settings."""
    request = FetchRequest(
        max_wait_ms=fetchers.wait_ms,
        min_bytes=fetchers.min_bytes,
        max_bytes=fetchers.max_response_bytes,
        session_id=built.session_id,
        session_epoch=built.session_epoch,
        topics=_topics(built.partitions),
        forgotten_topics_data=_forgotten(built.forgotten),
    )
    if version >= _FIRST_WITH_REPLICA_STATE:
        request.replica_state = FetchRequestReplicaState(
            replica_id=fetchers.broker_id, replica_epoch=fetchers.broker_epoch()
        )
    else:
        request.replica_id = fetchers.broker_id
    return request


def _topics(partitions: dict[PartitionKey, FetchPartition]) -> list[FetchRequestTopic]:
    topics: dict[str | bytes, FetchRequestTopic] = {}
    for (name, index), asked in partitions.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchRequestTopic(topic=name)
                if isinstance(name, str)
                else FetchRequestTopic(topic_id=name)
            )
        topic.partitions.append(
            FetchRequestPartition(
                partition=index,
                current_leader_epoch=asked.current_leader_epoch,
                fetch_offset=asked.fetch_offset,
                last_fetched_epoch=asked.last_fetched_epoch,
                log_start_offset=asked.log_start_offset,
                partition_max_bytes=asked.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(keys: list[PartitionKey]) -> list[FetchRequestForgottenTopic]:
    topics: dict[str | bytes, FetchRequestForgottenTopic] = {}
    for name, index in keys:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchRequestForgottenTopic(topic=name)
                if isinstance(name, str)
                else FetchRequestForgottenTopic(topic_id=name)
            )
        topic.partitions.append(index)
    return list(topics.values())


def named_partitions(request: FetchRequest) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    """Yield what a request asks of each partition that it names."""
    for topic in request.topics:
        name = topic.topic or bytes(topic.topic_id)
        for asked in topic.partitions:
            yield (
                (name, asked.partition),
                FetchPartition(
                    asked.fetch_offset,
                    asked.partition_max_bytes,
                    asked.current_leader_epoch,
                    asked.log_start_offset,
                    asked.last_fetched_epoch,
                ),
            )


def forgotten_partitions(request: FetchRequest) -> Iterator[PartitionKey]:
    """Yield the partitions that a request takes out of the session."""
    for topic in request.forgotten_topics_data:
        name = topic.topic or bytes(topic.topic_id)
        for partition in topic.partitions:
            yield name, partition
