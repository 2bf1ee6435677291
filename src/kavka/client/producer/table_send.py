"""Tables in one call: queued batch by batch, one table of a topic after another."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from kavka.client.cluster import Cluster
from kavka.client.producer.batch import (
    Acknowledged,
    Delivery,
    RecordRange,
)
from kavka.client.producer.record_input import RecordInput
from kavka.client.producer.records import TopicBatches
from kavka.client.producer.settings import AppenderSettings, SenderSettings


class TableSend:
    """`send_table`: rows have their partitions and batches by column, and come in as closed batches."""

    def __init__(
        self,
        records: RecordInput,
        cluster: Cluster,
        interceptors: list[Any],
        settings: tuple[AppenderSettings, SenderSettings],
    ) -> None:
        """Take the settings of appending and of sending: batches are encoded here."""
        self._input = records
        self._appender = records.appender
        self._cluster = cluster
        self._interceptors = interceptors
        self._settings, self._sending = settings
        self._topic_locks: dict[str, asyncio.Lock] = {}

    async def send(self, topic: str, table: Any, partition: int | None) -> list[RecordRange]:
        """Queue all rows, and wait until all are written."""
        delivery = Delivery(asyncio.get_running_loop().create_future())
        try:
            async with self._topic_locks.setdefault(topic, asyncio.Lock()):
                await self._queue(topic, table, partition, delivery)
        except BaseException:
            delivery.future.cancel()
            raise
        delivery.close()
        return await delivery.future

    async def _queue(
        self, topic: str, table: Any, partition: int | None, delivery: Delivery
    ) -> None:
        from kavka.client.producer.table_batches import batches_of_table  # needs the extra `arrow`

        state = self._appender.topics.get(topic) or await self._input.topic(topic)
        self._appender.update_partitions(state)
        sticky = state.sticky.choose(state.available, self._cluster.random.random())
        batches = batches_of_table(
            table,
            topic,
            self._partitioning(state, partition, sticky),
            batch_bytes=self._settings.batch_bytes,
            max_request_bytes=self._settings.max_request_bytes,
            now_ms=self._cluster.clock.now_ms(),
            compression=self._sending.compression,
            level=self._sending.level,
        )
        for batch in batches:
            state.sticky.count(batch.reserved)
            await self._input.append_batch(batch)
            delivery.add_part()
            batch.watchers.append((0, batch.count, delivery))
            if self._interceptors:
                acknowledged = Acknowledged(self._interceptors, None)
                batch.watchers.extend((row, 1, acknowledged) for row in range(batch.count))

    def _partitioning(self, state: TopicBatches, partition: int | None, sticky: int) -> Any:
        from kavka.client.producer.table_batches import RowPartitions

        partitioner = self._settings.partitioner
        return RowPartitions(
            partitions=state.count,
            fixed=partition,
            sticky=sticky,
            uses_keys=not self._settings.ignores_keys,
            choose=None if partitioner is None else partial(state.choose, partitioner),
        )
