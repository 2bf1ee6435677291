"""Look up offsets by time or by special values at the leaders, with retries: shared by consumer and admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
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
_STALE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)

Found = Mapping[TopicPartition, "OffsetAndTimestamp | KafkaError"]


class OffsetAndTimestamp(NamedTuple):
    """The answer for a partition; `offset` is -1 when no record is that young."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Return an answer for every partition; refusals that may pass are repeated until `timeout_ms` is over.

    `wanted` maps to a timestamp in milliseconds or one of the special values above. Raise TimeoutError when a
    leader cannot be reached in time.
    """
    cluster.add_topics(at.topic for at in wanted)
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await _ask_until_known(cluster, wanted, read_committed, found)
    except TimeoutError:
        for at in wanted:
            refusal = found.get(at)
            if refusal is None:
                raise TimeoutError(f"no offset of {at} in {timeout_ms} ms") from None
    return {at: found[at] for at in wanted}


async def _ask_until_known(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError],
) -> None:
    attempt = 0
    while True:
        open_ = [at for at in wanted if _is_open(found.get(at))]
        if not open_:
            return
        if attempt:
            await cluster.back_off(attempt - 1)
        groups: dict[BrokerId, list[TopicPartition]] = {}
        for at in open_:
            leader = cluster.metadata.leader(at)
            if leader is None:
                topic = cluster.metadata.topics.get(at.topic)
                if topic is not None and topic.partitions and at.partition >= len(topic.partitions):
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    found[at] = KafkaError(code, f"{at} does not exist")
                elif topic is not None and topic.error is not ErrorCode.NONE:
                    found[at] = KafkaError(topic.error, f"{at}: {topic.error.message}")
                cluster.mark_stale()
            else:
                groups.setdefault(leader, []).append(at)
        asked = (_ask(cluster, b, g, wanted, read_committed, found) for b, g in groups.items())
        await asyncio.gather(*asked)
        attempt += 1


def _is_open(answer: OffsetAndTimestamp | KafkaError | None) -> bool:
    return answer is None or (isinstance(answer, KafkaError) and answer.retriable)


async def _ask(
    cluster: Cluster,
    broker_id: BrokerId,
    partitions: Iterable[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError],
) -> None:
    topics: dict[str, list[ListOffsetsRequestPartition]] = {}
    for at in partitions:
        part = ListOffsetsRequestPartition(
            partition_index=at.partition,
            current_leader_epoch=cluster.metadata.leader_epoch(at),
            timestamp=wanted[at],
        )
        topics.setdefault(at.topic, []).append(part)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsRequestTopic(name=t, partitions=p) for t, p in topics.items()],
    )
    try:
        peer = await cluster.peer(broker_id)
        version = peer.version_of(ApiKey.LIST_OFFSETS)
        needed = max((_NEEDED_VERSION.get(wanted[at], 1) for at in partitions), default=1)
        if version < needed:
            refusal = KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{peer.name} is too old for this kind of offset"
            )
            found.update((at, refusal) for at in partitions)
            return
        response: ListOffsetsResponse = await peer.send(
            request, version, timeout_ms=cluster.request_timeout_ms
        )
    except (OSError, CorruptFrame):
        cluster.mark_stale()
        return
    for topic in response.topics:
        for answer in topic.partitions:
            at = TopicPartition(topic.name, answer.partition_index)
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                found[at] = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
                continue
            found[at] = KafkaError(code, f"{at}: {code.message}")
            if code in _STALE:
                cluster.mark_stale()
