"""This broker's replica of one partition: its log on disk and its place in the replication."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kavka.core.partition import Partition
from kavka.core.producer_state import Duplicate
from kavka.doors import Clock
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.settings.declaration import Value
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log import Log
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    assign,
    read_header,
)
from kavka.wire.records.validate import BatchRules, Refusal, prepare_produced

log = logging.getLogger(__name__)

ACKS_ALL = -1


class AppendOutcome(NamedTuple):
    """What became of the bytes that a client produced to one partition."""

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    end_offset: int = -1
    """The offset after the last record: acks=all waits until the high watermark reaches it."""
    written: asyncio.Future[None] | None = None
    """Not None while the bytes wait for a slow disk."""
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()


class Replica:
    """A log and its replication state. The owner calls `configure` whenever the topic's settings change."""

    def __init__(
        self,
        partition: Partition,
        log: Log,
        clock: Clock,
        moved: Callable[[TopicPartition], None],
    ) -> None:
        """`moved` is told whenever more can be read: the high watermark or the log start offset moved."""
        self.partition = partition
        self.log = log
        self.where = partition.topic_partition
        self.appended_bytes = 0
        """Bytes that became readable since the start; fetches that wait for bytes count by it."""
        self._clock = clock
        self._moved = moved
        self._rules = BatchRules()

    def configure(self, values: Mapping[str, Value], *, is_internal: bool) -> None:
        """Obey the topic's settings from the next append on."""
        self._rules = batch_rules(values)
        minimum = values["min.insync.replicas"]
        assert isinstance(minimum, int)
        self.partition.min_insync_replicas = 1 if is_internal else minimum

    # -- appending

    def append(self, records: memoryview | bytearray, acks: int, version: int) -> AppendOutcome:
        """Append what a client produced: one batch, judged, numbered and written, or refused whole.

        The batch is patched in place, so `records` must be writable and is the log's until it is written.
        """
        partition = self.partition
        if not partition.is_leader:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and not partition.has_enough_replicas:
            return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS)
        now_ms = self._clock.now_ms()
        prepared = prepare_produced(records, self._rules, now_ms, version)
        if isinstance(prepared, Refusal):
            return AppendOutcome(
                prepared.code, message=prepared.message, record_errors=prepared.record_errors
            )
        buffer, (header,) = prepared
        if header.attributes & TRANSACTIONAL_BIT:
            # A transaction that nobody coordinates would never end, and hold the last stable offset for ever.
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return AppendOutcome(code, message="A transactional batch without transactional id")
        if header.producer_id >= 0:
            verdict = self.log.producers.check(header)
            if isinstance(verdict, Duplicate):
                return self._duplicate(verdict)
            if verdict is not None:
                return AppendOutcome(verdict)
        return self._append(buffer, header, now_ms if self._stamps else -1)

    @property
    def _stamps(self) -> bool:
        return self._rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    def _append(
        self, records: memoryview | bytearray, header: BatchHeader, append_time_ms: int = -1
    ) -> AppendOutcome:
        """Number a batch that was judged, and write it."""
        header = assign(records, header, self.log.log_end_offset, self.partition.leader_epoch)
        try:
            appended = self.log.append(records, (header,), self.partition.leader_epoch)
        except LogDirectoryFailed as error:
            return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))
        size = header.size
        if appended.written is None:
            self._advance(size)
        else:
            appended.written.add_done_callback(lambda done: self._written(done, size))
        return AppendOutcome(
            ErrorCode.NONE,
            appended.base_offset,
            append_time_ms,
            self.log.log_start_offset,
            appended.last_offset + 1,
            appended.written,
        )

    def append_internal(self, records: bytearray) -> AppendOutcome:
        """Append a batch that this broker made itself, for an internal topic."""
        if not self.partition.is_leader:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        header = read_header(records)
        if header.size > self._rules.max_message_bytes:
            return AppendOutcome(ErrorCode.RECORD_LIST_TOO_LARGE)
        return self._append(records, header)

    def _duplicate(self, written: Duplicate) -> AppendOutcome:
        """Answer a batch that is in the log already as the first time, and no sooner than that."""
        return AppendOutcome(
            ErrorCode.NONE,
            written.base_offset,
            written.timestamp if self._stamps else -1,
            self.log.log_start_offset,
            written.last_offset + 1,
            self.log.pending(written.last_offset + 1),
        )

    def _written(self, done: asyncio.Future[None], size: int) -> None:
        if not done.cancelled() and done.exception() is None:
            self._advance(size)

    def _advance(self, size: int) -> None:
        """Bytes are in the page cache: the high watermark may move."""
        self.appended_bytes += size
        end_offset = self.log.written_offset
        if end_offset > self.partition.log_end_offset:
            has_moved = self.partition.appended(end_offset, self._clock.tick_ms())
            self.note_transactions()
            if has_moved:
                self._moved(self.where)

    def note_transactions(self) -> None:
        """Learn from the log where the last stable offset is; those that ended below the high watermark are over."""
        producers = self.log.producers
        producers.high_watermark_advanced(self.partition.high_watermark)
        self.partition.first_unstable_offset = producers.first_unstable_offset()

    # -- the start of the log

    def delete_before(self, offset: int) -> int:
        """Move the log start offset up and return it. Raise OffsetOutOfRange above the high watermark."""
        start = self.log.delete_before(offset, self.partition.high_watermark)
        self.note_log_start()
        return start

    def delete_old_segments(self) -> int:
        """Remove whole segments that retention lets go; return how many."""
        count = self.log.delete_old_segments(self.partition.high_watermark)
        self.note_log_start()
        return count

    @property
    def cleanup_policy(self) -> frozenset[str]:
        """What happens to old segments of this topic."""
        return self.log.config.cleanup_policy

    def note_log_start(self) -> None:
        """Tell the replication where the log begins now."""
        if self.partition.log_start_moved(self.log.log_start_offset):
            self._moved(self.where)


def batch_rules(values: Mapping[str, Value]) -> BatchRules:
    """Return what produced batches must obey under a topic's settings."""

    def whole(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), name
        return value

    policy = values["cleanup.policy"]
    assert isinstance(policy, list)
    compression, level = _target_compression(values)
    stamps = values["message.timestamp.type"] == "LogAppendTime"
    difference = whole("message.timestamp.difference.max.ms")
    return BatchRules(
        max_message_bytes=whole("max.message.bytes"),
        compression=compression,
        compression_level=level,
        timestamp_type=TimestampType.LOG_APPEND_TIME if stamps else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=min(whole("message.timestamp.before.max.ms"), difference),
        timestamp_after_max_ms=min(whole("message.timestamp.after.max.ms"), difference),
        needs_key="compact" in policy,
    )


def _target_compression(values: Mapping[str, Value]) -> tuple[Compression | None, int | None]:
    """Return the codec that batches are stored with, None for the producer's, and its level."""
    name = values["compression.type"]
    if name == "producer":
        return None, None
    if name == "uncompressed":
        return Compression.NONE, None
    assert isinstance(name, str)
    level = values.get(f"compression.{name}.level")
    return Compression[name.upper()], level if isinstance(level, int) else None
