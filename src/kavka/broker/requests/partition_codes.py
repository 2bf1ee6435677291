"""Error codes of partitions in responses by topic: of OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Protocol, TypeVar

from kavka.broker.requests.pace import Pace
from kavka.errors import ErrorCode

Codes = dict[tuple[str, int], ErrorCode]
"""By topic and partition."""


class _Topic(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)


async def topics_with_codes(
    requested: Iterable[_Topic],
    codes: Codes,
    existing: Container[tuple[str, int]],
    make_topic: Callable[..., T],
    make_partition: Callable[..., object],
    pace: Pace,
) -> list[T]:
    """Return the topics of a response, each once, with the codes of the requested partitions.

    As in Kafka, an existing partition that is requested repeatedly is in the response once; each request of another one
    has UNKNOWN_TOPIC_OR_PARTITION.
    """
    topics: dict[str, T] = {}
    for topic in requested:
        if pace.is_over():
            await pace.rest()
        answer = topics.get(topic.name)
        if answer is None:
            answer = topics[topic.name] = make_topic(name=topic.name)
        for asked in topic.partitions:
            index = asked.partition_index
            key = topic.name, index
            code = codes.pop(key, None) if key in existing else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code is not None:
                answer.partitions.append(make_partition(partition_index=index, error_code=code))
            if pace.is_over():
                await pace.rest()
    return list(topics.values())
