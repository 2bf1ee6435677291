"""Produce requests: the one way in which tests write batches over the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kavka.ids import TopicPartition
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from kavka.wire.records.batch import BatchBuilder

TIMESTAMP_MS = 1_700_000_000_000
"""Timestamp of records whose time does not matter."""

Batch = bytes | bytearray | memoryview


class Connection(Protocol):
    """A connection to a broker."""

    async def send(self, request: Any, version: int | None = None) -> Any:
        """Send a request, and return its response."""


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp_ms: int = TIMESTAMP_MS,
    **options: Any,
) -> bytearray:
    """Return a batch with a record for each value; `options` are those of `BatchBuilder.build`."""
    builder = BatchBuilder()
    for value in values:
        builder.append(key, value, timestamp_ms)
    return builder.build(**options)


def produce_request(
    topic: str, batches: Iterable[tuple[int, Batch]], **fields: Any
) -> ProduceRequest:
    """Return a request with a batch for each partition, acks=all unless `fields` say otherwise."""
    rows = [ProduceRequestPartition(index=index, records=records) for index, records in batches]
    topics = [ProduceRequestTopic(name=topic, partition_data=rows)]
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, **fields}, topic_data=topics)


async def produce(
    connection: Connection,
    topic_partition: TopicPartition,
    records: Batch,
    *,
    version: int = 9,
    **fields: Any,
) -> ProduceResponsePartition:
    """Send one batch, and return the partition's response; `fields` are those of the request."""
    request = produce_request(
        topic_partition.topic, [(topic_partition.partition, records)], **fields
    )
    return partition_response(await connection.send(request, version))


def partition_response(response: Any) -> ProduceResponsePartition:
    """Return the response to the first partition of a request."""
    found: ProduceResponsePartition = response.responses[0].partition_responses[0]
    return found
