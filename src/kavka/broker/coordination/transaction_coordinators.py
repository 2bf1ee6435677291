"""The transaction coordinators of this broker: one shard for each partition of `__transaction_state` that it leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from kavka.broker.context import BrokerContext
from kavka.broker.control.producer_ids import ProducerIdManager
from kavka.broker.coordination.coordinators import Coordinators
from kavka.broker.coordination.shard_reply import ShardReply
from kavka.broker.coordination.transaction_marker_manager import (
    TransactionMarkerManager,
    WriteHere,
)
from kavka.broker.coordination.transaction_shard_runtime import TransactionShardRuntime
from kavka.broker.lazy import Lazy
from kavka.broker.metadata.cache import TRANSACTIONS_TOPIC
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.controller.topics import NewTopic
from kavka.core.machine import Token
from kavka.core.transaction.events import DescribedTransaction, Event, ListedTransaction
from kavka.core.transaction.settings import TransactionSettings
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition


class TransactionCoordinators(Coordinators[TransactionShardRuntime]):
    """Finds the shard of a transactional id, and asks it."""

    topic_name = TRANSACTIONS_TOPIC
    replicas_setting = "transaction.state.log.replication.factor"

    def __init__(
        self,
        context: BrokerContext,
        *,
        create_topic: Callable[[NewTopic], Awaitable[object]],
        producer_ids: Lazy[ProducerIdManager],
        write_here: WriteHere,
    ) -> None:
        """Coordinate nothing yet.

        `write_here` writes markers to the partitions that this broker leads.
        """
        super().__init__(context.metadata, create_topic)
        self._context = context
        self._producer_ids = producer_ids
        self.markers = TransactionMarkerManager(context, write_here)
        integer = context.config.integer
        self._decoder = BatchDecoder(context.environment.disk)
        self._settings = TransactionSettings(
            max_timeout_ms=integer("transaction.max.timeout.ms"),
            two_phase_commit_enable=context.config.flag("transaction.two.phase.commit.enable"),
            expiration_ms=integer("transactional.id.expiration.ms"),
            abort_timed_out_interval_ms=integer(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ),
            remove_expired_interval_ms=integer(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
        )

    def internal_topic(self) -> NewTopic:
        """Return the topic as it is created on first use."""
        integer = self._context.config.integer
        # As for the topic of offsets, it is not made with fewer replicas because fewer brokers live just now.
        is_alone = self._context.has_own_registry
        factor = 1 if is_alone else integer(self.replicas_setting)
        settings: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(integer("transaction.state.log.min.isr"), factor)),
            "segment.bytes": str(integer("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
        partitions = integer("transaction.state.log.num.partitions")
        return NewTopic(TRANSACTIONS_TOPIC, partitions, factor, {}, settings)

    def _make_shard(self, replica: Replica) -> TransactionShardRuntime:
        return TransactionShardRuntime(
            self._context,
            replica,
            self._settings,
            self.markers,
            self._decoder,
            self._producer_ids,
        )

    def continue_leading(self, replica: Replica) -> None:
        """Send markers with the newer epoch: another may have led between the two, unheard, and sent some with its."""
        shard = self._shards.get(replica.topic_partition.partition)
        if shard is not None:
            shard.coordinator_epoch = replica.partition.leader_epoch

    def metadata_changed(self) -> None:
        """Send markers that had no leader to go to, where they have one now."""
        self.markers.metadata_changed()

    async def stop(self) -> None:
        """Stop all shards and the sending of markers."""
        await super().stop()
        await self.markers.stop()

    # -- asking

    def ask(self, transactional_id: str, make_event: Callable[[Token], Event]) -> ShardReply:
        """Submit an event to the shard of a transactional id; return its reply, or the error to answer."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            reply = ShardReply()
            reply.set_result(shard)
            return reply
        return shard.ask(make_event)

    async def submit(self, transactional_id: str, make_event: Callable[[Token], Event]) -> Any:
        """Submit an event as `ask` does, and wait for the reply."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        return await shard.submit(make_event)

    def takes_part(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
    ) -> bool:
        """Return whether a partition takes part in a transaction that is coordinated here; false also elsewhere."""
        shard = self.shard_of(transactional_id)
        return not isinstance(shard, ErrorCode) and shard.machine.takes_part(
            transactional_id, producer_id, producer_epoch, topic_partition
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return a transactional id as it is now."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return DescribedTransaction(shard, transactional_id)
        return shard.machine.describe(transactional_id)

    def list(
        self, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int
    ) -> tuple[ErrorCode, list[ListedTransaction]]:
        """Return the transactional ids of all shards that pass the filters; nothing while some shard is loading."""
        found: list[ListedTransaction] = []
        for shard in self.shards():
            some = shard.machine.list(shard.now_ms(), states, producer_ids, longer_than_ms)
            if isinstance(some, ErrorCode):
                return some, []
            found += some
        return ErrorCode.NONE, found
