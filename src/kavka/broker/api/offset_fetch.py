"""OffsetFetch: where groups have read to; one group below version 8, many from it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import FetchOffsets, FetchOffsetsReply
from kavka.core.group.records import CommittedOffset
from kavka.errors import ErrorCode
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_FIRST_BATCHED = 8
_FIRST_WITH_GROUP_ERROR = 2
_NOTHING = CommittedOffset(-1)
T = TypeVar("T")

Partitions = tuple[tuple[str, int], ...]


class _Topic(Protocol):
    """A topic that is asked for, in either shape of the request."""

    name: str
    partition_indexes: list[int]


async def handle(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answer each group."""
    stable = request.require_stable
    if context.version >= _FIRST_BATCHED:
        asked = [(group.group_id, _wanted(group.topics)) for group in request.groups]
        replies = await asyncio.gather(*(_fetch(broker, *one, stable) for one in asked))
        return OffsetFetchResponse(
            groups=[
                _group(group_id, reply) for (group_id, _), reply in zip(asked, replies, strict=True)
            ]
        )
    wanted = _wanted(request.topics)
    reply = await _fetch(broker, request.group_id, wanted, stable)
    if reply.error_code and context.version < _FIRST_WITH_GROUP_ERROR:
        reply = _spread(reply.error_code, wanted or ())
    return OffsetFetchResponse(
        error_code=reply.error_code,
        topics=_topics(reply, OffsetFetchResponseTopic, OffsetFetchResponsePartition),
    )


def _group(group_id: str, reply: FetchOffsetsReply) -> OffsetFetchResponseGroup:
    topics = _topics(reply, OffsetFetchResponseGroupTopic, OffsetFetchResponseGroupPartition)
    return OffsetFetchResponseGroup(group_id=group_id, error_code=reply.error_code, topics=topics)


def _wanted(topics: Sequence[_Topic] | None) -> Partitions | None:
    """Return the partitions that are asked for; None for all that the group has."""
    if topics is None:
        return None
    return tuple((topic.name, index) for topic in topics for index in topic.partition_indexes)


def _topics(
    reply: FetchOffsetsReply, topic_class: Callable[..., T], partition_class: Callable[..., Any]
) -> list[T]:
    """Return what a group has committed, topic by topic, in the shape of these classes."""
    rows: dict[str, list[Any]] = {}
    for name, partition, committed, code in reply.partitions:
        rows.setdefault(name, []).append(
            partition_class(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=code,
            )
        )
    return [topic_class(name=name, partitions=partitions) for name, partitions in rows.items()]


async def _fetch(
    broker: Broker, group_id: str, wanted: Partitions | None, require_stable: bool
) -> FetchOffsetsReply:
    reply = await broker.groups.ask(
        group_id, lambda token: FetchOffsets(token, group_id, wanted, require_stable)
    )
    if isinstance(reply, ErrorCode):
        return FetchOffsetsReply(reply)
    assert isinstance(reply, FetchOffsetsReply)
    return reply


def _spread(code: ErrorCode, wanted: Iterable[tuple[str, int]]) -> FetchOffsetsReply:
    """Put the error of a group into its partitions, where old versions look for it."""
    rows = tuple((topic, partition, _NOTHING, code) for topic, partition in wanted)
    return FetchOffsetsReply(ErrorCode.NONE, rows)
