"""Replicas outside the in-sync set that hold everything nevertheless (KIP-966): only some clusters keep them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
)


class EligibleLeaders(NamedTuple):
    """Brokers that may lead a partition, and those that last could; None where the cluster keeps none."""

    eligible: tuple[int, ...] | None
    last_known: tuple[int, ...] | None


async def eligible_leaders(
    router: Router, names: Iterable[str], page_size: int, timeout_ms: int | None
) -> dict[TopicPartition, EligibleLeaders]:
    """See `Admin.eligible_leaders`."""
    topics = [
        DescribeTopicPartitionsRequestTopic(name=name)
        for name in sorted(arguments.names("names", names))
    ]
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    found: dict[TopicPartition, EligibleLeaders] = {}
    while topics:
        request = DescribeTopicPartitionsRequest(
            topics=topics, response_partition_limit=page_size, cursor=cursor
        )
        try:
            response: DescribeTopicPartitionsResponse = await router.any(
                plain(request), lambda _: (), timeout_ms
            )
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        _collect(response, found)
        if response.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )
    return found


def _collect(
    response: DescribeTopicPartitionsResponse, found: dict[TopicPartition, EligibleLeaders]
) -> None:
    for topic in response.topics:
        for part in topic.partitions:
            found[TopicPartition(topic.name or "", part.partition_index)] = EligibleLeaders(
                _optional(part.eligible_leader_replicas), _optional(part.last_known_elr)
            )


def _optional(brokers: list[int] | None) -> tuple[int, ...] | None:
    return None if brokers is None else tuple(brokers)
