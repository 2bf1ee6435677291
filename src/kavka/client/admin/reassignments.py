"""Moves of partitions to other brokers: begun, stopped and listed (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.client.partitions import by_partition, partitions_of
from kavka.core.topic_partitions import partitions_by_topic
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
)
from kavka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
)


class Reassignment(NamedTuple):
    """A move in progress."""

    replicas: tuple[int, ...]
    """All, with those that come and those that go."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def list_reassignments(
    router: Router, partitions: Iterable[TopicPartition] | None, timeout_ms: int | None
) -> dict[TopicPartition, Reassignment]:
    """See `Admin.list_partition_reassignments`."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in partitions_by_topic(partitions_of(partitions)).items()
        ]
    request = ListPartitionReassignmentsRequest(
        timeout_ms=router.timeout_ms(timeout_ms), topics=topics
    )
    response: ListPartitionReassignmentsResponse = await router.controller(
        plain(request), lambda response: (response.error_code,), timeout_ms
    )
    error = refusal(response.error_code, response.error_message)
    if error is not None:
        raise error
    return {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for topic in response.topics
        for part in topic.partitions
    }


async def alter_reassignments(
    router: Router,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    timeout_ms: int | None,
) -> dict[TopicPartition, KafkaError | None]:
    """See `Admin.alter_partition_reassignments`."""
    targets = by_partition(targets)
    topics = [
        AlterPartitionReassignmentsRequestTopic(
            name=name,
            partitions=[
                AlterPartitionReassignmentsRequestPartition(
                    partition_index=number, replicas=_listed(targets[TopicPartition(name, number)])
                )
                for number in numbers
            ],
        )
        for name, numbers in partitions_by_topic(targets).items()
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=router.timeout_ms(timeout_ms), topics=topics
    )
    response: AlterPartitionReassignmentsResponse = await router.controller(
        plain(request), lambda response: (response.error_code,), timeout_ms
    )
    whole = refusal(response.error_code, response.error_message)
    if whole is not None:
        return dict.fromkeys(targets, whole)
    return {
        TopicPartition(topic.name, part.partition_index): refusal(
            part.error_code, part.error_message
        )
        for topic in response.responses
        for part in topic.partitions
    }


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else arguments.numbers("the replicas", replicas)
