"""The one way in of records, under `send` and `append`, `send_many`, and `send_table`.

    record --> its topic is known?  no --> waits in `records_awaiting_metadata`, and those behind it do, too
                     | yes
               partition and batch (`record_appender`) --> `accumulator`  no memory --> waits in `buffer_pool`

`append` takes a record or refuses it at once; the other methods wait until it can be taken.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.client.cluster import Cluster
from kavka.client.pending_calls import PendingCalls
from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.batch import ProducerBatch, Target
from kavka.client.producer.buffer_pool import BufferPool
from kavka.client.producer.record_appender import RecordAppender
from kavka.client.producer.record_serializer import check_topic
from kavka.client.producer.records import ProducerRecord, TopicBatches
from kavka.client.producer.records_awaiting_metadata import RecordsAwaitingMetadata


class RecordInput:
    """Takes serialized records and closed batches. Waits for topics end when the producer is closed."""

    def __init__(
        self,
        cluster: Cluster,
        appender: RecordAppender,
        buffer_pool: BufferPool,
        awaiting_metadata: RecordsAwaitingMetadata,
        *,
        require_sending: Callable[[], None],
        calls: PendingCalls,
        max_block_ms: int,
    ) -> None:
        """`require_sending` raises where no record may be taken; `max_block_ms` bounds the waits."""
        self._cluster = cluster
        self.appender = appender
        self._buffer_pool = buffer_pool
        self._awaiting_metadata = awaiting_metadata
        self.require_sending = require_sending
        self._calls = calls
        self._max_block_ms = max_block_ms

    def append(self, record: ProducerRecord, target: Target | None) -> None:
        """Take a record. Raise BufferFull, ValueError, KafkaError MESSAGE_TOO_LARGE, RuntimeError."""
        self.require_sending()
        state = None
        if record.topic not in self._awaiting_metadata:
            state = self.appender.topic_batches(record.topic)
        if state is None:
            self._awaiting_metadata.add(record, target)
        else:
            self.appender.append(state, record, target)

    async def append_when_possible(self, record: ProducerRecord, target: Target | None) -> None:
        """Take a record once its topic is known and there is memory for it. Raise TimeoutError, and as `append`."""
        if record.topic not in self.appender.topics:
            with self._calls.until_closed():
                await self._cluster.topic(record.topic, self._max_block_ms)
        while True:
            try:
                self.append(record, target)
            except BufferFull:
                with self._calls.until_closed():
                    await self.wait_for_memory()
            else:
                return

    async def append_batch(self, batch: ProducerBatch) -> None:
        """Take a closed batch once there is memory for it. Raise TimeoutError, RuntimeError."""
        while True:
            try:
                self.appender.append_batch(batch)
            except BufferFull:
                await self._buffer_pool.wait_in_batches(batch.reserved)
            else:
                return

    async def topic(self, name: str) -> TopicBatches:
        """Return a topic's batches once it is known, and what was appended before is in them.

        Raise TimeoutError, KafkaError, ValueError.
        """
        check_topic(name)
        with self._calls.until_closed():
            await self._awaiting_metadata.wait_until_appended(name)
            await self._cluster.topic(name, self._max_block_ms)
        state = self.appender.topic_batches(name)
        assert state is not None
        return state

    async def wait_for_memory(self) -> None:
        """Return when there is memory for what was refused last. Raise TimeoutError."""
        await self._buffer_pool.wait_for_refused()
