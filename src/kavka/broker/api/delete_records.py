"""DeleteRecords: the start of a log moves up (KIP-107)."""

from __future__ import annotations

import asyncio

from kavka.broker.metadata.cache import INTERNAL_TOPICS
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.purgatory import Purgatory
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.storage.failures import OffsetOutOfRange
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)

_HIGH_WATERMARK = -1


class _LowWatermarkWait:
    """Waits until all live replicas have moved the start of a partition's log, or it has another leader.

    A leader that stays leader in a newer epoch (another replica failed, say) still has its log begin there. A replica
    is live while the controller shows it online: one on a broker that refuses connections, or on a failed disk, is not
    waited for, though its broker's session may last.
    """

    __slots__ = (
        "_epoch",
        "_purgatory",
        "_replica",
        "_replica_manager",
        "_wanted",
        "done",
        "result",
    )

    def __init__(
        self,
        replica_manager: ReplicaManager,
        purgatory: Purgatory,
        replica: Replica,
        result: DeleteRecordsResponsePartition,
    ) -> None:
        self._replica_manager = replica_manager
        self._purgatory = purgatory
        self._replica = replica
        self._epoch = replica.partition.leader_epoch
        self._wanted = result.low_watermark
        self.result = result
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _judge(self) -> ErrorCode | None:
        replica = self._replica_manager.find(self._replica.topic_partition)
        if isinstance(replica, ErrorCode):  # its disk has failed, say
            return replica
        partition = replica.partition
        if not partition.is_leader or self._epoch < partition.leads_since:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        low = partition.low_watermark()
        return ErrorCode.NONE if low >= self._wanted else None

    def is_complete(self) -> bool:
        return self._judge() is not None

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def begin(self, timeout_ms: int) -> None:
        """Wait from now on."""
        if self.is_complete():
            self.wake()
        else:
            self._purgatory.wait([self._replica.topic_partition], timeout_ms, self)

    async def end(self) -> None:
        """Set the outcome in the response."""
        await self.done
        code = self._judge()
        if code is not ErrorCode.NONE:
            self.result.error_code = ErrorCode.REQUEST_TIMED_OUT if code is None else code
            self.result.low_watermark = -1


async def handle(
    replica_manager: ReplicaManager,
    produce_purgatory: Purgatory,
    context: RequestContext,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse:
    """Move the log start offset of each partition; of those named repeatedly the last counts.

    It is durable before the response leaves, and all replicas have it.
    """
    pace = context.pace
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        if pace.is_over():
            await pace.rest()
        for asked in topic.partitions:
            offsets[TopicPartition(topic.name, asked.partition_index)] = asked.offset
            if pace.is_over():
                await pace.rest()
    topics: dict[str, DeleteRecordsResponseTopic] = {}
    waits = []
    for topic_partition, offset in offsets.items():
        result = _delete(replica_manager, context, topic_partition, offset)
        of_topic = topics.get(topic_partition.topic)
        if of_topic is None:
            of_topic = topics[topic_partition.topic] = DeleteRecordsResponseTopic(
                name=topic_partition.topic
            )
        of_topic.partitions.append(result)
        replica = replica_manager.find(topic_partition)
        if not result.error_code and isinstance(replica, Replica):
            waits.append(_LowWatermarkWait(replica_manager, produce_purgatory, replica, result))
        if pace.is_over():
            await pace.rest()
    await replica_manager.write_checkpoints()
    for wait in waits:
        wait.begin(request.timeout_ms)
    request.topics, offsets = [], {}  # it may wait long
    if not all(wait.done.done() for wait in waits):
        context.begin_wait()
    for wait in waits:
        await wait.end()
        if pace.is_over():
            await pace.rest()
    return DeleteRecordsResponse(topics=list(topics.values()))


def _delete(
    replica_manager: ReplicaManager,
    context: RequestContext,
    topic_partition: TopicPartition,
    offset: int,
) -> DeleteRecordsResponsePartition:
    result = DeleteRecordsResponsePartition(
        partition_index=topic_partition.partition, low_watermark=-1
    )
    if not context.allows(AclOperation.DELETE, AclResourceType.TOPIC, topic_partition.topic):
        result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    if topic_partition.topic in INTERNAL_TOPICS:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    replica = replica_manager.find(topic_partition)
    if isinstance(replica, ErrorCode):
        result.error_code = replica
        return result
    error = replica.partition.check_leader()
    if error is not ErrorCode.NONE:
        result.error_code = error
        return result
    if "delete" not in replica.cleanup_policy:
        result.error_code = ErrorCode.POLICY_VIOLATION
        return result
    wanted = replica.partition.high_watermark if offset == _HIGH_WATERMARK else offset
    try:
        if wanted < 0:
            raise OffsetOutOfRange(
                wanted, replica.log.log_start_offset, replica.partition.high_watermark
            )
        result.low_watermark = replica.delete_before(wanted)
    except OffsetOutOfRange:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    return result
