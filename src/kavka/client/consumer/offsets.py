"""Committed offsets of a group: written and read at its coordinator, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kavka.client.cluster import Cluster
from kavka.core.group_member.steps import MemberSettings, OffsetAndMetadata
from kavka.core.topic_partitions import group_by_topic, partitions_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from kavka.client.consumer.group.coordinator import ConsumerCoordinator

_COORDINATOR_GONE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
_GROUPS_VERSION = 8
_STABLE_VERSION = 7
_REFUSED = "the offsets were not committed because the group has gone on without this member"
_OUTSIDE = "the offsets were not committed because the consumer is joining its group: poll until it has partitions"

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class CommittedOffsets:
    """The committed offsets of one group, as one member of it (or as none, when partitions are assigned manually).

    Offsets of an open transaction are waited for, whatever the consumer's isolation level: one that begins before them
    does again what the transaction has done (KIP-447).
    """

    def __init__(
        self, cluster: Cluster, coordinator: ConsumerCoordinator, settings: MemberSettings
    ) -> None:
        """Send nothing yet."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._settings = settings

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit offsets. Raise KafkaError when it is refused, TimeoutError when no coordinator answers in time."""
        if not offsets:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._repeat_commit(offsets)
        except TimeoutError:
            raise TimeoutError(f"the offsets were not committed in {timeout_ms} ms") from None

    async def _repeat_commit(self, offsets: Offsets) -> None:
        attempt = 0
        while True:
            try:
                await self._commit_once(offsets)
                return
            except KafkaError as error:
                if not error.retriable:
                    raise
            except (OSError, CorruptFrame):
                self._coordinator.coordinator.forget()
            await self._cluster.back_off(attempt)
            attempt += 1

    async def _commit_once(self, offsets: Offsets) -> None:
        topics = group_by_topic(
            (
                topic_partition,
                OffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                ),
            )
            for topic_partition, (offset, metadata, leader_epoch) in offsets.items()
        )
        member = self._coordinator.member
        if member.is_groupless:
            # Without a generation it would count as the commit of a tool, which a group without members takes.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, _OUTSIDE)
        is_member = member.generation >= 0
        request = OffsetCommitRequest(
            group_id=self._settings.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id if is_member else "",
            group_instance_id=self._settings.instance_id if is_member else None,
            topics=[OffsetCommitRequestTopic(name=t, partitions=p) for t, p in topics.items()],
        )
        peer = await self._coordinator.coordinator.peer()
        response: OffsetCommitResponse = await peer.send(
            request, timeout_ms=self._cluster.request_timeout_ms
        )
        for topic in response.topics:
            for part_ in topic.partitions:
                self._check_commit(
                    ErrorCode.of(part_.error_code), topic.name, part_.partition_index
                )

    def _check_commit(self, code: ErrorCode, topic: str, partition: int) -> None:
        if code is ErrorCode.NONE:
            return
        if code in _COORDINATOR_GONE:
            self._coordinator.coordinator.forget()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._coordinator.request_rejoin(f"commit answered {code.name}")
            raise KafkaError(code, _REFUSED)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._coordinator.request_rejoin("the group is rebalancing")
        raise KafkaError(code, f"{topic}-{partition}: {code.message}")

    async def fetch(
        self, partitions: Iterable[TopicPartition] | None, timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is committed for the partitions (None: for all); those without an offset are left out.

        Raise KafkaError, or TimeoutError when no coordinator answers in time.
        """
        wanted = None if partitions is None else list(partitions)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._repeat_fetch(wanted)
        except TimeoutError:
            raise TimeoutError(f"the committed offsets were not read in {timeout_ms} ms") from None

    async def _repeat_fetch(
        self, wanted: list[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        attempt = 0
        while True:
            try:
                peer = await self._coordinator.coordinator.peer()
                version = peer.version_of(ApiKey.OFFSET_FETCH)
                request = fetch_request(
                    self._settings.group_id, wanted, version, require_stable=True
                )
                response: OffsetFetchResponse = await peer.send(
                    request, version, timeout_ms=self._cluster.request_timeout_ms
                )
                return fetched_offsets(response, version)
            except KafkaError as error:
                if error.code in (*_COORDINATOR_GONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                    # One that continues "loading" may be cut off, with another in its place (our decision 013).
                    self._coordinator.coordinator.forget()
                if not error.retriable:
                    raise
            except (OSError, CorruptFrame):
                self._coordinator.coordinator.forget()
            await self._cluster.back_off(attempt)
            attempt += 1


def fetch_request(
    group_id: str, wanted: list[TopicPartition] | None, version: int, require_stable: bool
) -> OffsetFetchRequest:
    """Return the request in the shape of its version."""
    topics = None if wanted is None else partitions_by_topic(wanted)
    stable = require_stable and version >= _STABLE_VERSION
    if version >= _GROUPS_VERSION:
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestGroupTopic(name=t, partition_indexes=p) for t, p in topics.items()
            ],
        )
        return OffsetFetchRequest(groups=[group], require_stable=stable)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()],
        require_stable=stable,
    )


def fetched_offsets(
    response: OffsetFetchResponse, version: int
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets of the one group that was asked for. Raise KafkaError for the first refusal."""
    group = response.groups[0] if version >= _GROUPS_VERSION else response
    code = ErrorCode.of(group.error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        for part in topic.partitions:
            code = ErrorCode.of(part.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"{topic.name}-{part.partition_index}: {code.message}")
            if part.committed_offset >= 0:
                topic_partition = TopicPartition(topic.name, part.partition_index)
                found[topic_partition] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return found
