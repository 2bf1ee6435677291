"""Writes batches of audit lines to the leader of their partition, and creates the topic.

This broker's own log is appended to directly: a lone broker needs no client of itself. Another leader is sent a Produce
through the listener between brokers, as the brokers' principal. Neither is audited here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replica import Replica
from kavka.broker.produce.delayed_produce import Append, wait_until_replicated, wait_until_written
from kavka.broker.requests.purgatory import Purgatory
from kavka.core.controller.topics import NewTopic, TopicRefusal
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.records.batch import BatchBuilder

if TYPE_CHECKING:
    from kavka.net.peer import Peer

_ACKS: Final = -1
"""Of all replicas in sync: the topic is there for when a machine is lost."""
_PRODUCE_VERSION: Final = 9
"""Of the rules for what is appended here."""
_CREATE_S: Final = 30
_SETTINGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(90 * 24 * 3600 * 1000),
    "compression.type": "producer",
}


class AuditTopicWriter:
    """The topic of the audit, as this broker writes to it."""

    def __init__(
        self,
        context: BrokerContext,
        find: Callable[[TopicPartition], Replica | ErrorCode],
        create_topic: Callable[[NewTopic], Awaitable[object]],
        purgatory: Purgatory,
    ) -> None:
        """Do nothing yet; `find` returns a replica that this broker leads, `create_topic` perhaps a TopicRefusal.

        Appends here wait in `purgatory` until the replicas in sync have them.
        """
        config = context.config
        name = config.optional("kavka.audit.topic")
        assert name is not None
        self.name = name
        self._context = context
        self._find = find
        self._create_topic = create_topic
        self._purgatory = purgatory
        self._timeout_ms = config.integer("request.timeout.ms")
        self._leader: tuple[BrokerId, Peer] | None = None

    def new_topic(self) -> NewTopic:
        """Return the topic as it is created on first use: one partition, so that all brokers' lines have one order."""
        setting = "kavka.audit.topic.replication.factor"
        # As of internal topics: it is not created while fewer brokers live, and would stay with fewer replicas.
        factor = 1 if self._context.has_own_registry else self._context.config.integer(setting)
        return NewTopic(self.name, 1, factor, {}, _SETTINGS)

    async def write(self, lines: Sequence[bytes]) -> ErrorCode:
        """Append lines as one batch. Raise OSError, KafkaError, CorruptFrame, RegistryRefused."""
        metadata = self._context.metadata
        topic = metadata.topics.get(self.name)
        if topic is None:
            return await self._create()
        # Of a topic with several, made by an operator, each broker keeps to one: its lines have an order.
        number = self._context.broker_id % len(topic.partitions)
        topic_partition = TopicPartition(self.name, number)
        partition = metadata.partition(topic_partition)
        if partition is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        batch = self._batch(lines)
        if partition.leader == self._context.broker_id:
            return await self._append(topic_partition, batch)
        return await self._send(partition.leader, topic_partition, batch)

    def close(self) -> None:
        """Close the connection to another leader."""
        if self._leader is not None:
            self._leader[1].abort()
            self._leader = None

    def _batch(self, lines: Sequence[bytes]) -> bytearray:
        builder = BatchBuilder()
        key, now_ms = str(self._context.broker_id).encode(), self._context.clock.now_ms()
        for line in lines:
            builder.append(key, line, now_ms)
        return builder.build()

    async def _create(self) -> ErrorCode:
        async with asyncio.timeout(_CREATE_S):
            outcome = await self._create_topic(self.new_topic())
        if isinstance(outcome, TopicRefusal) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectionError(f"the topic is not created: {outcome.message}")
        return ErrorCode.LEADER_NOT_AVAILABLE  # known in a moment

    async def _append(self, topic_partition: TopicPartition, batch: bytearray) -> ErrorCode:
        replica = self._find(topic_partition)
        if isinstance(replica, ErrorCode):
            return replica
        outcome = replica.append(batch, _ACKS, _PRODUCE_VERSION)
        if outcome.error is not ErrorCode.NONE:
            return outcome.error
        appends = [Append(replica, outcome)]
        (code,) = await wait_until_written(appends)
        if code is ErrorCode.NONE:
            (code,) = await wait_until_replicated(self._purgatory, appends, self._timeout_ms)
        return code

    async def _send(
        self, leader: BrokerId, topic_partition: TopicPartition, batch: bytearray
    ) -> ErrorCode:
        data = ProduceRequestPartition(index=topic_partition.partition, records=memoryview(batch))
        request = ProduceRequest(
            acks=_ACKS,
            timeout_ms=self._timeout_ms,
            topic_data=[ProduceRequestTopic(name=self.name, partition_data=[data])],
        )
        peer = await self._connected(leader)
        response = await peer.send(request, timeout_ms=self._timeout_ms)
        return ErrorCode.of(response.responses[0].partition_responses[0].error_code)

    async def _connected(self, leader: BrokerId) -> Peer:
        """Return the connection to the leader. Raise OSError, KafkaError."""
        if self._leader is not None:
            known, peer = self._leader
            if known == leader and not peer.is_closed:
                return peer
            self.close()
        from kavka.net.peer import Peer

        context = self._context
        live = context.metadata.brokers.get(leader)
        endpoint = None if live is None else live.endpoint(context.config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"the topic has no leader that is alive: {leader}")
        peer = await Peer.connect(
            context.environment.network,
            endpoint.host,
            endpoint.port,
            client_id=f"{context.broker_id}-audit",
            timeout_ms=self._timeout_ms,
            security=context.peer_security,
        )
        self._leader = leader, peer
        return peer
