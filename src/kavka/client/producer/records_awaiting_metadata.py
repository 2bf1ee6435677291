"""Records of topics that are not known yet: they wait in order, count against `buffer.memory`, and go first."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from kavka.client.cluster import Cluster
from kavka.client.producer.accumulator import Accumulator, BufferFull
from kavka.client.producer.batch import Target, call
from kavka.client.producer.buffer_pool import BufferPool
from kavka.client.producer.record_appender import RecordAppender
from kavka.client.producer.records import ProducerRecord, size_of

log = logging.getLogger(__name__)


class RecordsAwaitingMetadata:
    """A queue and a task per topic; the task waits for the topic, then appends the queue."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        appender: RecordAppender,
        buffer_pool: BufferPool,
        fail: Callable[[Exception], None],
        max_block_ms: int,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """`fail` takes failures of records without a target; `max_block_ms` bounds the wait for a topic.

        `on_failure` is called with every failure: a transaction cannot be committed without the record.
        """
        self._cluster = cluster
        self._accumulator = accumulator
        self._appender = appender
        self._buffer_pool = buffer_pool
        self._fail = fail
        self._max_block_ms = max_block_ms
        self._on_failure = on_failure
        self._waiting: dict[str, deque[tuple[ProducerRecord, Target | None]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, topic: str) -> bool:
        """Return whether records of the topic wait: what comes later must wait behind them."""
        return topic in self._waiting

    def __bool__(self) -> bool:
        """Return whether any records wait."""
        return bool(self._waiting)

    def count(self) -> int:
        """Return how many records wait."""
        return sum(map(len, self._waiting.values()))

    def add(self, record: ProducerRecord, target: Target | None) -> None:
        """Keep a record until its topic is known. Raise BufferFull, KafkaError MESSAGE_TOO_LARGE."""
        size = size_of(record.key, record.value, record.headers)
        size = self._appender.checked_size(size, record.topic, record.key)
        if self._waiting and not self._accumulator.fits_in_memory(
            self._buffer_pool.awaiting_metadata_bytes + size
        ):
            raise self._accumulator.refuse(size)
        self._buffer_pool.awaiting_metadata_bytes += size
        if record.timestamp_ms is None:
            record = record._replace(timestamp_ms=self._cluster.clock.now_ms())
        self._waiting.setdefault(record.topic, deque()).append((record, target))
        if record.topic not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._append_when_known(record.topic))
            self._tasks[record.topic] = task

    async def wait_until_appended(self, topic: str | None = None) -> None:
        """Return when what waits now, of one topic or of all, is in batches or has failed."""
        chosen = self._tasks.values() if topic is None else [self._tasks.get(topic)]
        tasks = [task for task in chosen if task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self, error: Exception) -> None:
        """Fail what still waits."""
        for task in self._tasks.values():
            task.cancel()
        self._fail_every(error)  # at once: what waits for the tasks looks whether records are left
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()  # one that was cancelled before its first step is still there
        self._fail_every(error)  # those that came meanwhile

    def _fail_every(self, error: Exception) -> None:
        for topic in list(self._waiting):
            self._fail_all(topic, error)

    async def _append_when_known(self, topic: str) -> None:
        try:
            await self._cluster.topic(topic, self._max_block_ms)
            state = self._appender.new_topic_batches(topic)
            waiting = self._waiting[topic]
            while waiting:
                record, target = waiting[0]
                size = size_of(record.key, record.value, record.headers)
                try:
                    self._appender.append(state, record, target)
                except BufferFull:
                    await self._buffer_pool.wait_in_batches(size)
                    continue
                except Exception as error:  # noqa: BLE001  a user's partitioner may raise anything
                    self._fail_record(record, target, error)
                waiting.popleft()
                self._buffer_pool.awaiting_metadata_bytes -= size
            del self._waiting[topic]
            self._appender.topics[topic] = state
        except Exception as error:  # noqa: BLE001  after any error the records must not wait without limit
            self._fail_all(topic, error)
        finally:
            self._tasks.pop(topic, None)
            self._buffer_pool.wake()

    def _fail_all(self, topic: str, error: Exception) -> None:
        for record, target in self._waiting.pop(topic, ()):
            self._buffer_pool.awaiting_metadata_bytes -= size_of(
                record.key, record.value, record.headers
            )
            self._fail_record(record, target, error)

    def _fail_record(self, record: ProducerRecord, target: Target | None, error: Exception) -> None:
        if self._on_failure is not None:
            self._on_failure(error)
        if isinstance(target, asyncio.Future):
            if not target.done():
                target.set_exception(error)
        elif callable(target):
            call(target, None, error)
        else:
            log.error("record not sent topic=%s reason=%s", record.topic, error)
            self._fail(error)
