"""Reads a partition of an internal topic for the shard that it is loaded into."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.io import Clock
from kavka.storage.failures import LogClosed, OffsetOutOfRange
from kavka.wire.records.batch import Record
from kavka.wire.records.header import BatchHeader, walk_complete

log = logging.getLogger(__name__)

_LOAD_BYTES = 64 * 1024
_SLICE_MS = 2


class PartitionReplay:
    """One reading of a partition from its start to what was its end at the start."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        decoder: BatchDecoder,
        *,
        on_control_batch: Callable[[bytes, BatchHeader], None],
        on_records: Callable[[list[Record], BatchHeader], None],
    ) -> None:
        """`on_records` is called with the records of a batch, some at a time, `on_control_batch` with whole batches."""
        self._replica = replica
        self._clock = clock
        self._decoder = decoder
        self._on_control_batch = on_control_batch
        self._on_records = on_records

    async def run(self) -> None:
        """Replay the partition up to its end, in slices of the loop's time.

        A log that moves to another directory meanwhile continues there, at the same offset. Raise OSError, CorruptFile,
        CorruptBatch.
        """
        started_ms = self._clock.tick_ms()
        offset = self._replica.log.log_start_offset
        end = self._replica.log.log_end_offset
        count = 0
        while offset < end:
            partition_log = self._replica.log
            try:
                read = partition_log.read(offset, _LOAD_BYTES, end, True)
                if not read.is_cached:
                    read = await read.load(self._decoder.disk)
            except OffsetOutOfRange:
                offset = self._replica.log.log_start_offset
                continue
            except LogClosed:
                if not await self._replica.succeeded(partition_log):
                    raise
                continue
            if read.range is None:
                break
            try:
                data = read.range.file.read_at(read.range.length, read.range.position)
            finally:
                read.range.release()
            reached = await self._replay(data)
            if reached is None:
                break
            offset = reached
            count += 1
        took_ms = self._clock.tick_ms() - started_ms
        topic_partition = self._replica.topic_partition
        log.info("shard loaded partition=%s reads=%d took_ms=%d", topic_partition, count, took_ms)

    async def _replay(self, data: bytes) -> int | None:
        """Apply the records of whole batches; return the offset after them, None when there is none."""
        reached: int | None = None
        slice_end = self._clock.tick_ms() + _SLICE_MS
        for header in walk_complete(data):
            if header.is_control:
                self._on_control_batch(data, header)
            else:
                async for records in self._decoder.decode(data, header):
                    self._on_records(records, header)
            reached = header.last_offset + 1
            if self._clock.tick_ms() >= slice_end:
                await asyncio.sleep(0)
                slice_end = self._clock.tick_ms() + _SLICE_MS
        return reached
