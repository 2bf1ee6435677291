"""Changes of in-sync sets on their way to the controller: one request in flight, all partitions in it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.replication.node_to_controller_channel import NodeToControllerChannel
from kavka.core.partition import IsrChange
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestInSync,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
)

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 30_000
_RETRY_MS: Final = 50
_EXPANSION_CHECK_MS: Final = 500
_MAX_PARTITIONS: Final = 2000


class AlterPartitionManager:
    """Proposes changes to the controller and adopts what it answers."""

    def __init__(
        self,
        context: BrokerContext,
        replica_manager: ReplicaManager,
        controller: NodeToControllerChannel,
    ) -> None:
        """Propose nothing yet."""
        self._context = context
        self._replica_manager = replica_manager
        self._controller = controller
        # Invariant: one change of each partition, the one that its `pending_isr` is about.
        self._waiting: dict[TopicPartition, tuple[Replica, IsrChange]] = {}
        self._sending: dict[TopicPartition, tuple[Replica, IsrChange]] = {}
        self._sender: asyncio.Task[None] | None = None
        self._checker: asyncio.Task[None] | None = None
        self.shrinks = self.expansions = self.failures = 0
        """Sets that became smaller or larger, and proposals that the controller refused, since the start."""

    def start(self) -> None:
        """Start the periodic check for replicas that lag or have caught up."""
        if self._checker is None:
            self._checker = asyncio.get_running_loop().create_task(self._check())

    async def stop(self) -> None:
        """Stop sending."""
        tasks = [task for task in (self._sender, self._checker) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sender = self._checker = None

    def propose(self, replica: Replica, change: IsrChange) -> None:
        """Send a change soon, together with others."""
        log.info(
            "in-sync set proposed partition=%s from=%s to=%s",
            replica.topic_partition,
            list(replica.partition.in_sync_replicas),
            list(change.in_sync_replicas),
        )
        self._waiting[replica.topic_partition] = (replica, change)
        self.start()
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    # -- checks of all replicas

    async def _check(self) -> None:
        """Propose shrinks every half of `replica.lag.time.max.ms`, and expansions more often."""
        lag_ms = self._context.config.integer("replica.lag.time.max.ms")
        last_shrink_ms = self._context.clock.tick_ms()
        while True:
            await asyncio.sleep(min(_EXPANSION_CHECK_MS, max(1, lag_ms // 2)) / 1000)
            now_ms = self._context.clock.tick_ms()
            is_shrink_due = now_ms - last_shrink_ms >= lag_ms // 2
            if is_shrink_due:
                last_shrink_ms = now_ms
            for replica in self._replica_manager:
                try:
                    self._check_replica(replica, now_ms, is_shrink_due=is_shrink_due)
                # One partition must not block the others' sets without limit.
                except Exception:
                    log.exception("in-sync set not checked partition=%s", replica.topic_partition)

    def _check_replica(self, replica: Replica, now_ms: int, *, is_shrink_due: bool) -> None:
        partition = replica.partition
        if not partition.is_leader or len(partition.replicas) == 1 or not _is_online(replica):
            return
        # A follower that was about to be in sync, and is not any more, does not say so.
        replica.advance_high_watermark(now_ms)
        change = partition.propose_shrink(now_ms) if is_shrink_due else None
        if change is None and len(partition.in_sync_replicas) < len(partition.replicas):
            change = partition.propose_expansion(partition.live_replicas, now_ms)
        if change is not None:
            self.propose(replica, change)
        elif not (
            replica.topic_partition in self._waiting or replica.topic_partition in self._sending
        ):
            # Refused with an update to come: for a topic that the controller does not know none may come.
            change = partition.pending_change()
            if change is not None:
                self.propose(replica, change)

    # -- sending

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = dict(list(self._waiting.items())[:_MAX_PARTITIONS])
                self._sending = batch
                for topic_partition in batch:
                    del self._waiting[topic_partition]
                try:
                    again = await self._send(batch)
                except Exception:
                    # A bug must not end the sending: no in-sync set would change any more.
                    log.exception("in-sync sets not changed")
                    again = batch
                if again:
                    await asyncio.sleep(_RETRY_MS / 1000)
                    for topic_partition, (replica, change) in again.items():
                        is_pending = replica.partition.pending_isr == change.in_sync_replicas
                        if is_pending and _is_online(replica):
                            self._waiting.setdefault(topic_partition, (replica, change))
        finally:
            self._sender = None
            self._sending = {}

    async def _send(
        self, batch: dict[TopicPartition, tuple[Replica, IsrChange]]
    ) -> dict[TopicPartition, tuple[Replica, IsrChange]]:
        """Send some changes and adopt the responses; return those to be sent again."""
        try:
            response: AlterPartitionResponse = await self._controller.send(
                self._request(batch), _TIMEOUT_MS
            )
        except (OSError, KafkaError, CorruptFrame) as error:
            log.info("in-sync sets not changed reason=%s", error)
            return batch
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode.of(response.error_code)
            log.info("in-sync sets not changed error=%s", code.name)
            return batch
        by_id = {
            (replica.partition.topic_id, topic_partition.partition): topic_partition
            for topic_partition, (replica, _change) in batch.items()
        }
        for topic in response.topics:
            for result in topic.partitions:
                topic_partition = by_id.get(
                    (TopicId(bytes(topic.topic_id)), result.partition_index)
                )
                if topic_partition is not None and topic_partition in batch:
                    replica, change = batch[topic_partition]
                    if not self._apply_response(replica, change, result):
                        del batch[topic_partition]
        return batch

    def _request(
        self, batch: dict[TopicPartition, tuple[Replica, IsrChange]]
    ) -> AlterPartitionRequest:
        own, own_epoch = self._context.broker_id, self._context.broker_epoch
        topics: dict[TopicId, AlterPartitionRequestTopic] = {}
        for topic_partition, (replica, change) in batch.items():
            topic_id = replica.partition.topic_id
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopic(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartition(
                    partition_index=topic_partition.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionRequestInSync(
                            broker_id=broker,
                            broker_epoch=own_epoch if broker == own else broker_epoch,
                        )
                        for broker, broker_epoch in zip(
                            change.in_sync_replicas, change.broker_epochs, strict=True
                        )
                    ],
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=own,
            broker_epoch=own_epoch,
            topics=list(topics.values()),
        )

    def _apply_response(
        self, replica: Replica, change: IsrChange, result: AlterPartitionResponsePartition
    ) -> bool:
        """Handle the response for one partition; return whether the change is to be sent again."""
        partition = replica.partition
        now_ms = self._context.clock.tick_ms()
        error = ErrorCode.of(result.error_code)
        if error is not ErrorCode.NONE:
            self.failures += 1
            log.info(
                "in-sync set not changed partition=%s error=%s", replica.topic_partition, error.name
            )
            is_sent_again = partition.isr_change_failed(change, error)
            replica.advance_high_watermark(now_ms)
            return is_sent_again
        in_sync = tuple(BrokerId(broker) for broker in result.isr)
        if result.leader_epoch != partition.leader_epoch:
            return False  # a newer LeaderAndIsr is on its way
        before = len(partition.in_sync_replicas)
        has_moved = partition.isr_changed(change, in_sync, result.partition_epoch, now_ms)
        self.shrinks += len(partition.in_sync_replicas) < before
        self.expansions += len(partition.in_sync_replicas) > before
        log.info(
            "in-sync set changed partition=%s isr=%s epoch=%d",
            replica.topic_partition,
            list(partition.in_sync_replicas),
            partition.partition_epoch,
        )
        if has_moved:
            replica.high_watermark_moved()
        growth = partition.propose_expansion(partition.live_replicas, now_ms)
        if growth is not None:
            self.propose(replica, growth)
        return False


def _is_online(replica: Replica) -> bool:
    """Return whether a leader's log is online: else no replica follows it, and all would be removed from the set."""
    return replica.log.directory.failure is None
