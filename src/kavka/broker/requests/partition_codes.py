"""Error codes of partitions in responses by topic: of OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from kavka.broker.requests.pace import Pace
from kavka.errors import ErrorCode

Codes = dict[tuple[str, int], ErrorCode]
"""By topic and partition."""


class _Topic(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)


def _code(
    codes: Codes, existing: Container[tuple[str, int]], key: tuple[str, int]
) -> ErrorCode | None:
    """Return the code of a requested partition; None for one that is in the response already."""
    return codes.pop(key, None) if key in existing else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def topics_with_codes(
    requested: Iterable[_Topic],
    codes: Codes,
    existing: Container[tuple[str, int]],
    make_topic: Callable[..., T],
    make_partition: Callable[..., object],
    pace: Pace,
    refused: Mapping[str, ErrorCode] = MappingProxyType({}),
) -> list[T]:
    """Return the topics of a response, each once, with the codes of the requested partitions.

    As in Kafka, an existing partition that is requested repeatedly is in the response once; each request of another one
    has UNKNOWN_TOPIC_OR_PARTITION. `refused` are the topics with an error of their own.
    """
    topics: dict[str, T] = {}
    for topic in requested:
        if pace.is_over():
            await pace.rest()
        row = topics.get(topic.name)
        if row is None:
            row = topics[topic.name] = make_topic(name=topic.name)
        for asked in topic.partitions:
            index = asked.partition_index
            key = topic.name, index
            code = refused.get(topic.name) or _code(codes, existing, key)
            if code is not None:
                row.partitions.append(make_partition(partition_index=index, error_code=code))
            if pace.is_over():
                await pace.rest()
    return list(topics.values())
