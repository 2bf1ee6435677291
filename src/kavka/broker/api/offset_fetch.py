"""OffsetFetch: where groups have read to; one group below version 8, many from it on."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.core.group.events import FetchOffsets, FetchOffsetsReply
from kavka.core.group.records import CommittedOffset
from kavka.errors import ErrorCode
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
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

Partitions = tuple[tuple[str, int], ...]


async def handle(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answer each group."""
    if context.version >= _FIRST_BATCHED:
        groups = [await _group(broker, group, request) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    wanted: Partitions | None = None
    if request.topics is not None:
        wanted = tuple((topic.name, p) for topic in request.topics for p in topic.partition_indexes)
    reply = await _fetch(broker, request.group_id, wanted, require_stable=request.require_stable)
    if reply.error_code and context.version < _FIRST_WITH_GROUP_ERROR:
        reply = _spread(reply.error_code, wanted or ())
    answer = OffsetFetchResponse(error_code=reply.error_code)
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for name, partition, committed, code in reply.partitions:
        topic = topics.setdefault(name, OffsetFetchResponseTopic(name=name))
        topic.partitions.append(
            OffsetFetchResponsePartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=code,
            )
        )
    answer.topics = list(topics.values())
    return answer


async def _group(
    broker: Broker, asked: OffsetFetchRequestGroup, request: OffsetFetchRequest
) -> OffsetFetchResponseGroup:
    wanted: Partitions | None = None
    if asked.topics is not None:
        wanted = tuple((topic.name, p) for topic in asked.topics for p in topic.partition_indexes)
    reply = await _fetch(broker, asked.group_id, wanted, require_stable=request.require_stable)
    answer = OffsetFetchResponseGroup(group_id=asked.group_id, error_code=reply.error_code)
    topics: dict[str, OffsetFetchResponseGroupTopic] = {}
    for name, partition, committed, code in reply.partitions:
        topic = topics.setdefault(name, OffsetFetchResponseGroupTopic(name=name))
        topic.partitions.append(
            OffsetFetchResponseGroupPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=code,
            )
        )
    answer.topics = list(topics.values())
    return answer


async def _fetch(
    broker: Broker, group_id: str, wanted: Partitions | None, *, require_stable: bool
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
