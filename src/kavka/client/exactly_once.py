"""Consume, transform, produce: results and the offsets that they come from are committed together, or not at all.

One `step` of the loop:

    poll ------------> batches
    begin
    transform, append                      the results are in the transaction
    send_offsets_to_transaction            so is how far the input was read; the group checks that we are its member
    commit                                 both become visible, in one decision of the coordinator

After any error in between, the transaction is aborted and the same batches are read again. When the process dies,
the next one with the same `transactional.id` aborts what was left open (`init_transactions`), and its consumer begins
where the last commit says. What the transformation does elsewhere (files, calls of other services) is done again.

    async with Consumer({..., "group.id": "g", "enable.auto.commit": False, "isolation.level": "read_committed"}) as
            consumer, Producer({..., "transactional.id": "g-1"}) as producer:
        consumer.subscribe(["in"])
        await ExactlyOnce(consumer, producer, transform).run()
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.producer import Producer
from kavka.client.producer.records import ProducerRecord
from kavka.core.transactional_producer.errors import AbortableError, FatalError

log = logging.getLogger(__name__)

Transform = Callable[
    [FetchedBatches], Iterable[ProducerRecord] | Awaitable[Iterable[ProducerRecord]]
]
"""Makes records of batches; it may be called again with the same batches."""


class ExactlyOnce:
    """The loop of one consumer and one transactional producer, which must not be used otherwise meanwhile."""

    def __init__(self, consumer: Consumer, producer: Producer, transform: Transform) -> None:
        """Take both open. Raise ValueError for a consumer that commits by itself, or reads what is not committed."""
        if consumer.commits_by_itself:
            raise ValueError(
                "exactly once needs enable.auto.commit=false: offsets are the producer's to commit"
            )
        if not consumer.reads_committed:
            raise ValueError(
                "exactly once needs isolation.level=read_committed: else aborted records are read"
            )
        self._consumer = consumer
        self._producer = producer
        self._transform = transform
        self._is_running = False
        self.abort_reason: BaseException | None = None
        """The error that aborted the last step, None after one that was not aborted."""

    async def run(self) -> None:
        """Initialize the producer, then step until `stop`. Raise FatalError, and what polling or `transform` raises."""
        self._is_running = True
        await self._finish(self._producer.init_transactions)
        while self._is_running:
            await self.step()

    def stop(self) -> None:
        """End `run` after the step that it is in."""
        self._is_running = False

    async def step(self, timeout_ms: int = 1000) -> int:
        """Poll once and commit what comes of it; return how many batches were committed.

        0 when nothing came, or the transaction was aborted for a reason that will pass. Raise FatalError, and, after an
        abort, what `transform` raises.
        """
        batches = await self._consumer.poll(timeout_ms)
        self.abort_reason = None
        if not batches:
            return 0
        self._producer.begin_transaction()
        try:
            await self._fill(batches)
            await self._finish(self._producer.commit_transaction)
        except BaseException as error:
            if isinstance(error, FatalError):
                raise
            if self._producer.can_abort:
                await self._finish(self._producer.abort_transaction)
            self._consumer.rewind(batches)
            if not isinstance(error, AbortableError | TimeoutError):
                raise
            self.abort_reason = error
            log.warning("transaction aborted and repeated reason=%s", error)
            return 0
        return len(batches)

    async def _fill(self, batches: list[FetchedBatches]) -> None:
        for batch in batches:
            results = self._transform(batch)
            for record in await results if inspect.isawaitable(results) else results:
                await self._append(record)
        positions = {batch.topic_partition: batch.next_offset for batch in batches}
        await self._producer.send_offsets_to_transaction(positions, self._consumer.group_metadata())

    async def _append(self, record: ProducerRecord) -> None:
        topic, value, key, partition, timestamp_ms, headers = record
        while True:
            try:
                self._producer.append(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
                return
            except BufferFull:
                await self._producer.wait_for_memory()

    async def _finish(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Wait for a decision however long it takes: until it is known there is nothing else to do."""
        while True:
            try:
                await call()
                return
            except TimeoutError as error:
                log.warning("still waiting reason=%s", error)
