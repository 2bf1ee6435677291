"""Tables in one call: queued batch by batch, one table of a topic after another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kavka.client.cluster import Cluster
from kavka.client.producer.accumulator import Accumulator, BufferFull
from kavka.client.producer.batch import (
    Acknowledged,
    Delivery,
    ProducerBatch,
    RecordRange,
    Watcher,
)
from kavka.client.producer.placing import Placing
from kavka.client.producer.records import TopicBatches
from kavka.client.producer.room import Room
from kavka.client.producer.sender import Sender, SenderSettings
from kavka.client.producer.settings import PlacingSettings


class Tables:
    """`send_table`: rows go past `Placing`, because they are encoded column by column."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        placing: Placing,
        room: Room,
        learn_topic: Callable[[str], Awaitable[TopicBatches]],
        interceptors: list[Any],
        settings: tuple[PlacingSettings, SenderSettings],
    ) -> None:
        """`learn_topic` waits for a topic."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._placing = placing
        self._room = room
        self._learn_topic = learn_topic
        self._interceptors = interceptors
        self._settings, self._sending = settings
        self._turns: dict[str, asyncio.Lock] = {}

    async def send(self, topic: str, table: Any, partition: int | None) -> list[RecordRange]:
        """Queue all rows, and wait until all are written."""
        delivery = Delivery(asyncio.get_running_loop().create_future())
        try:
            async with self._turns.setdefault(topic, asyncio.Lock()):
                await self._queue(topic, table, partition, delivery)
        except BaseException:
            delivery.future.cancel()
            raise
        delivery.seal()
        return await delivery.future

    async def _queue(
        self, topic: str, table: Any, partition: int | None, delivery: Delivery
    ) -> None:
        from kavka.client.producer.table import batches_of_table  # needs the extra `arrow`

        state = self._placing.topics.get(topic) or await self._learn_topic(topic)
        self._placing.refresh(state)
        sticky = state.sticky.choose(state.available, self._cluster.chance.random())
        batches = batches_of_table(
            table,
            topic,
            self._partitioning(state, partition, sticky),
            batch_bytes=self._settings.table_batch_bytes,
            max_request_bytes=self._settings.max_request_bytes,
            now_ms=self._cluster.clock.now_ms(),
            compression=self._sending.compression,
            level=self._sending.level,
        )
        for batch in batches:
            state.sticky.count(batch.reserved)
            await self._add(batch)
            delivery.add_part()
            batch.watchers.append(Watcher(0, batch.count, delivery))
            if self._interceptors:
                told = Acknowledged(self._interceptors, None)
                batch.watchers.extend(Watcher(row, 1, told) for row in range(batch.count))
            self._sender.wake()

    def _partitioning(self, state: TopicBatches, partition: int | None, sticky: int) -> Any:
        from kavka.client.producer.table import RowPartitions

        partitioner = self._settings.partitioner
        return RowPartitions(
            partitions=state.count,
            fixed=partition,
            sticky=sticky,
            uses_keys=not self._settings.ignores_keys,
            choose=None if partitioner is None else partial(state.choose, partitioner),
        )

    async def _add(self, batch: ProducerBatch) -> None:
        while True:
            self._placing.require_open()
            try:
                self._accumulator.add_closed(batch)
                break
            except BufferFull:
                await self._room.wait_in_batches(batch.reserved)
        batch.created_ms = self._cluster.clock.tick_ms()
