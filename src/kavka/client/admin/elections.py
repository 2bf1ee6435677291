"""Elections of leaders on request (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kavka.client.admin.router import Router, plain, refusal
from kavka.client.partitions import partitions_of
from kavka.core.topic_partitions import partitions_by_topic
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
)


class ElectionType(IntEnum):
    """The type of an election: the preferred replica, or any live one."""

    PREFERRED = 0
    """The first of the replicas, if it is in sync."""
    UNCLEAN = 1
    """Any live replica where none is in sync: records may be lost."""


async def elect_leaders(
    router: Router,
    election_type: ElectionType,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: int | None,
) -> dict[TopicPartition, KafkaError | None]:
    """See `Admin.elect_leaders`."""
    election_type = ElectionType(election_type)
    topics = None
    if partitions is not None:
        topics = [
            ElectLeadersRequestTopic(topic=name, partitions=numbers)
            for name, numbers in partitions_by_topic(partitions_of(partitions)).items()
        ]
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=topics,
        timeout_ms=router.timeout_ms(timeout_ms),
    )
    response: ElectLeadersResponse = await router.controller(
        plain(request), lambda response: (response.error_code,), timeout_ms
    )
    whole = refusal(response.error_code)
    if whole is not None:
        raise whole
    return {
        TopicPartition(topic.topic, part.partition_id): refusal(part.error_code, part.error_message)
        for topic in response.replica_election_results
        for part in topic.partition_result
    }
