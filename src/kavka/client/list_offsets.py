"""Lookups of offsets by time or by special values at the leaders: shared by consumer, admin client and Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.client.cluster import Cluster
from kavka.client.leader_requests import Results, send_to_leaders, send_until_answered
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

_NEEDED_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


class OffsetAndTimestamp(NamedTuple):
    """The response for a partition; `offset` is -1 when no record is that young."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int,
    unknown_after: int | None = None,
) -> Results[OffsetAndTimestamp]:
    """Return a result for every partition; refusals that may pass are repeated until `timeout_ms` is over.

    `wanted` maps to a timestamp in milliseconds or one of the special values above. A topic that does not exist is
    waited for as well, unless `unknown_after` bounds how often. A partition whose leader does not answer has the error
    REQUEST_TIMED_OUT.
    """
    lookup = _Lookup(cluster, wanted, read_committed)
    found = await send_until_answered(
        cluster, wanted, lookup.ask, timeout_ms=timeout_ms, unknown_after=unknown_after
    )
    return {
        topic_partition: found.get(topic_partition)
        or KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"no offset of {topic_partition} in {timeout_ms} ms"
        )
        for topic_partition in wanted
    }


def failure_of(refusal: KafkaError) -> KafkaError | TimeoutError:
    """Return what to raise for a partition of `list_offsets`: a TimeoutError if its leader did not answer."""
    if refusal.code is ErrorCode.REQUEST_TIMED_OUT:
        return TimeoutError(refusal.detail)
    return refusal


async def look_up_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    timeout_ms: int,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return an offset for every partition. Raise the first refusal, TimeoutError when a leader does not answer."""
    results = await list_offsets(
        cluster, wanted, read_committed=read_committed, timeout_ms=timeout_ms
    )
    found = {}
    for topic_partition, result in results.items():
        if isinstance(result, KafkaError):
            raise failure_of(result)
        found[topic_partition] = result
    return found


async def list_offsets_once(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool
) -> Results[OffsetAndTimestamp]:
    """Ask each leader once; partitions with an unknown or unreachable leader are missing in the result."""
    return await send_to_leaders(cluster, wanted, _Lookup(cluster, wanted, read_committed).ask)


class _Lookup:
    def __init__(
        self, cluster: Cluster, wanted: Mapping[TopicPartition, int], read_committed: bool
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._isolation_level = int(read_committed)

    async def ask(
        self, leader: BrokerId, partitions: list[TopicPartition]
    ) -> Results[OffsetAndTimestamp]:
        """Ask one leader."""
        peer = await self._cluster.peer(leader)
        version = peer.version_of(ApiKey.LIST_OFFSETS)
        needed = max(
            _NEEDED_VERSION.get(self._wanted[topic_partition], 1) for topic_partition in partitions
        )
        if version < needed:
            refusal = KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{peer.name} is too old for this kind of offset"
            )
            return dict.fromkeys(partitions, refusal)
        response: ListOffsetsResponse = await peer.send(
            self._request(partitions), version, timeout_ms=self._cluster.request_timeout_ms
        )
        found: Results[OffsetAndTimestamp] = {}
        for topic in response.topics:
            for part in topic.partitions:
                topic_partition = TopicPartition(topic.name, part.partition_index)
                code = ErrorCode.of(part.error_code)
                if code is ErrorCode.NONE:
                    found[topic_partition] = OffsetAndTimestamp(
                        part.offset, part.timestamp, part.leader_epoch
                    )
                else:
                    found[topic_partition] = KafkaError(code, f"{topic_partition}: {code.message}")
        return found

    def _request(self, partitions: Iterable[TopicPartition]) -> ListOffsetsRequest:
        topics = group_by_topic(
            (
                topic_partition,
                ListOffsetsRequestPartition(
                    partition_index=topic_partition.partition,
                    current_leader_epoch=self._cluster.metadata.leader_epoch(topic_partition),
                    timestamp=self._wanted[topic_partition],
                ),
            )
            for topic_partition in partitions
        )
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=[ListOffsetsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
        )
