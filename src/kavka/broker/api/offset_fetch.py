"""OffsetFetch: where groups have read to; one group below version 8, many from it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.repetitions import Repetitions
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.group.events import FetchOffsets, FetchOffsetsReply
from kavka.core.group.records import CommittedOffset
from kavka.core.machine import Token
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

if TYPE_CHECKING:
    from kavka.broker.coordination.group_coordinators import GroupCoordinators


_FIRST_BATCHED = 8
_FIRST_WITH_GROUP_ERROR = 2
_NOTHING = CommittedOffset(-1)
_AT_ONCE = 1000
_GROUPS_AT_ONCE = 64

Partitions = tuple[tuple[str, int], ...]


class _Topic(Protocol):
    """A topic that is asked for, in either shape of the request."""

    name: str
    partition_indexes: list[int]


async def handle(
    groups: GroupCoordinators, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answer each group."""
    pace = context.pace
    if context.version >= _FIRST_BATCHED:
        return OffsetFetchResponse(groups=await _groups(groups, context, request, pace))
    rows = _Rows(OffsetFetchResponseTopic, OffsetFetchResponsePartition)
    wanted = await _wanted(request.topics, pace)
    code = await _fetch_allowed(groups, context, request.group_id, wanted, request, rows)
    if code is not ErrorCode.NONE and context.version < _FIRST_WITH_GROUP_ERROR:
        # Old versions look for the error of a group in its partitions.
        for topic_partition in wanted or ():
            rows.add(*topic_partition, _NOTHING, code)
            if pace.is_over():
                await pace.rest()
        code = ErrorCode.NONE
    return OffsetFetchResponse(error_code=code, topics=rows.topics())


async def _groups(
    groups: GroupCoordinators, context: RequestContext, request: OffsetFetchRequest, pace: Pace
) -> list[OffsetFetchResponseGroup]:
    """Answer each group; repeated requests for all offsets of one, or for none, are looked up once."""
    repetitions = Repetitions("OFFSET_FETCH")
    whole: dict[tuple[str | int, bool | None], OffsetFetchResponseGroup] = {}
    results: list[OffsetFetchResponseGroup] = []
    for at in range(0, len(request.groups), _GROUPS_AT_ONCE):
        some = request.groups[at : at + _GROUPS_AT_ONCE]
        new = {_which(n, g): g for n, g in enumerate(some) if _which(n, g) not in whole}
        # Side by side, for each may wait for replicas.
        work = (_group(groups, context, g, request) for g in new.values())
        found = dict(zip(new, await asyncio.gather(*work), strict=True))
        whole |= {which: result for which, result in found.items() if which[1] is not None}
        for n, group in enumerate(some):
            which = _which(n, group)
            result = found.pop(which, None)
            if result is None:
                result = whole[which]
                repetitions.add(result)
            results.append(result)
        if pace.is_over():
            await pace.rest()
    return results


def _which(n: int, group: OffsetFetchRequestGroup) -> tuple[str | int, bool | None]:
    """Return what is the same for groups that are answered in the same way: all that one has, or nothing of it."""
    return (n, None) if group.topics else (group.group_id, group.topics is None)


async def _group(
    groups: GroupCoordinators,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    request: OffsetFetchRequest,
) -> OffsetFetchResponseGroup:
    rows = _Rows(OffsetFetchResponseGroupTopic, OffsetFetchResponseGroupPartition)
    wanted = await _wanted(group.topics, context.pace)
    code = await _fetch_allowed(groups, context, group.group_id, wanted, request, rows)
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code, topics=rows.topics())


class _Rows:
    """Committed offsets of groups, topic by topic, as rows of two classes."""

    __slots__ = ("_partition_class", "_rows", "_topic_class")

    def __init__(
        self, topic_class: Callable[..., Any], partition_class: Callable[..., Any]
    ) -> None:
        self._topic_class = topic_class
        self._partition_class = partition_class
        self._rows: dict[str, list[Any]] = {}

    def add(self, topic: str, partition: int, committed: CommittedOffset, code: ErrorCode) -> None:
        rows = self._rows.get(topic)
        if rows is None:
            rows = self._rows[topic] = []
        rows.append(
            self._partition_class(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=code,
            )
        )

    def clear(self) -> None:
        self._rows.clear()

    def keep(self, may_show: Callable[[str], bool]) -> None:
        """Drop the topics that may not be shown."""
        self._rows = {name: rows for name, rows in self._rows.items() if may_show(name)}

    def topics(self) -> list[Any]:
        return [self._topic_class(name=name, partitions=rows) for name, rows in self._rows.items()]


async def _wanted(topics: Sequence[_Topic] | None, pace: Pace) -> Partitions | None:
    """Return the partitions that are asked for, each once; None for all that the group has."""
    if topics is None:
        return None
    wanted: dict[tuple[str, int], None] = {}
    for topic in topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partition_indexes:
            wanted[topic.name, index] = None
            if pace.is_over():
                await pace.rest()
    return tuple(wanted)


async def _fetch_allowed(
    groups: GroupCoordinators,
    context: RequestContext,
    group_id: str,
    wanted: Partitions | None,
    request: OffsetFetchRequest,
    rows: _Rows,
) -> ErrorCode:
    """Do as `_fetch` for a client that may describe the group, with the topics that it may describe."""
    pace = context.pace
    if context.authorizer is None:
        return await _fetch(groups, group_id, wanted, request.require_stable, rows, pace)
    if not context.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused = set()
    for name in dict.fromkeys(name for name, _index in wanted or ()):
        if not context.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
            refused.add(name)
        if pace.is_over():
            await pace.rest()
    allowed = None if wanted is None else tuple(one for one in wanted if one[0] not in refused)
    code = await _fetch(groups, group_id, allowed, request.require_stable, rows, pace)
    if code is not ErrorCode.NONE:
        return code
    if wanted is None:
        describe, topic = AclOperation.DESCRIBE, AclResourceType.TOPIC
        rows.keep(lambda name: context.allows(describe, topic, name, is_asked=False))
    for name, index in wanted or ():
        if name in refused:
            rows.add(name, index, _NOTHING, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if pace.is_over():
            await pace.rest()
    return ErrorCode.NONE


async def _fetch(
    groups: GroupCoordinators,
    group_id: str,
    wanted: Partitions | None,
    require_stable: bool,
    rows: _Rows,
    pace: Pace,
) -> ErrorCode:
    """Add the offsets of a group to rows, some at a time; return the error of the group."""
    for at in range(0, max(1, len(wanted or ())), _AT_ONCE):
        some = None if wanted is None else wanted[at : at + _AT_ONCE]
        reply = await groups.submit(group_id, partial(_event, group_id, some, require_stable))
        code = reply if isinstance(reply, ErrorCode) else reply.error_code
        if code is not ErrorCode.NONE:
            rows.clear()
            return code
        assert isinstance(reply, FetchOffsetsReply)
        for row in reply.partitions:
            rows.add(*row)
            if pace.is_over():
                await pace.rest()
    return ErrorCode.NONE


def _event(
    group_id: str, some: Partitions | None, require_stable: bool, token: Token
) -> FetchOffsets:
    return FetchOffsets(token, group_id, some, require_stable)
