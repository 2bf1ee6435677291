"""A replica on this broker: its log on disk and its state in the replication."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kavka.broker.partitions.traffic import TopicTraffic
from kavka.core.partition import Partition, Role
from kavka.core.producer_state import Duplicate, Verification
from kavka.core.recent_refusals import RecentRefusals
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.io import Clock
from kavka.settings.declaration import Value, whole_number
from kavka.storage.failures import CorruptFile, LogDirectoryFailed
from kavka.storage.log.log import Log
from kavka.storage.log.writer import Markers
from kavka.wire.records.batch_check import Allowance, BatchCheck, Refusal
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import EndMarker, encode_end_marker
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    assign,
    read_header,
)
from kavka.wire.records.validate import BatchRules, begin_check, number_checked, number_produced

log = logging.getLogger(__name__)

ACKS_ALL = -1
UNVERIFIED = Verification(-1, -1, 0)
"""In place of one where `transaction.partition.verification.enable` is off."""


class AppendOutcome(NamedTuple):
    """The outcome of appending a client's batch to one partition."""

    error: ErrorCode
    base_offset: int = -1
    """-1 with an error, and without one for a duplicate of which the offset is not known."""
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    end_offset: int = -1
    """The offset after the last record: acks=all waits until the high watermark reaches it."""
    written: asyncio.Future[None] | None = None
    """Not None while the bytes wait for a slow disk."""
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    leader_epoch: int = -1
    """Of the leader that appended; acks=all counts in it."""


class ReplicaObserver(Protocol):
    """An observer of a replica: a follower that fetches it, or a move to another directory."""

    def notify(self, *, can_wait: bool = False) -> None:
        """Note that the end, the high watermark, the log start offset or the leadership moved. Must not raise.

        `can_wait`: only the high watermark did, which is not urgent.
        """
        ...


class Replica:
    """A log and its replication state. The owner calls `configure` whenever the topic's settings change."""

    def __init__(
        self,
        partition: Partition,
        log: Log,
        clock: Clock,
        on_high_watermark_moved: Callable[[TopicPartition], None],
        traffic: TopicTraffic,
    ) -> None:
        """`on_high_watermark_moved` is called when the high watermark or the log start offset moved."""
        self.partition = partition
        self.log = log
        self.topic_partition = partition.topic_partition
        self.traffic = traffic
        self.leader_high_watermark = -1
        """As the leader's last response said, while this broker follows."""
        self.appended_bytes = 0
        """Bytes that became readable since the start; fetches that wait for bytes count by it."""
        self.lock = asyncio.Lock()
        """Held while the log is truncated, or the role changes: both wait for the disk."""
        self.observers: dict[ReplicaObserver, None] = {}
        self.is_stopped = False
        """True if the controller has stopped this replica in the present leader epoch."""
        self.is_frozen = False
        """True while appends are blocked because another log, or another leader, takes over."""
        self.is_swapping = False
        """True while a copy in another directory replaces the log: which of both counts is known afterwards."""
        self.truncation_count = 0
        """Number of truncations of the log: data copied before may be of another history."""
        self._clock = clock
        self._recent_refusals = RecentRefusals()
        self._on_high_watermark_moved = on_high_watermark_moved
        self._batch_rules = BatchRules()
        self._stamps = False

    def configure(self, values: Mapping[str, Value]) -> None:
        """Apply the topic's settings from the next append on."""
        self._batch_rules = batch_rules(values)
        self._stamps = self._batch_rules.timestamp_type is TimestampType.LOG_APPEND_TIME
        self.partition.min_insync_replicas = whole_number(values, "min.insync.replicas")

    @property
    def is_offline(self) -> bool:
        """Return whether the directory of the log has failed, and no other one takes its place."""
        return self.log.directory.failure is not None and not self.is_swapping

    @property
    def stores_zstd(self) -> bool:
        """Return whether the topic's compression.type is zstd; a producer's batch may be zstd all the same."""
        return self._batch_rules.compression is Compression.ZSTD

    async def succeeded(self, closed: Log) -> bool:
        """Wait until a closed log has its successor in another directory; false when it has none: it was deleted."""
        if self.log is closed:
            async with self.lock:  # a swap holds it
                pass
        return self.log is not closed

    def damage_found(self, error: CorruptFile) -> ErrorCode:
        """Log and count a fetch that a damaged log cannot serve; return the error for the fetcher."""
        log.error("partition cannot be read partition=%s reason=%s", self.topic_partition, error)
        self.traffic.failed_fetch_requests += 1
        return ErrorCode.CORRUPT_MESSAGE

    # -- appending

    def begin_check(self, records: memoryview, version: int, allowance: Allowance) -> BatchCheck:
        """Return the check of what a client produced, to be given to `append` when it is done."""
        return begin_check(records, self._batch_rules, self._clock.now_ms(), version, allowance)

    def append(
        self,
        records: memoryview | bytearray | BatchCheck,
        acks: int,
        version: int,
        verification: Verification | None = None,
    ) -> AppendOutcome:
        """Append what a client produced: one batch, judged, numbered and written, or refused whole.

        The batch is patched in place, so `records` must be writable and is the log's until it is written.
        Transactional ones need a `verification` that is valid, or UNVERIFIED.
        """
        outcome = self.begin_append(records, acks, version, verification)
        assert not isinstance(outcome, BatchCheck), "there is no allowance"
        return outcome

    def begin_append(
        self,
        records: memoryview | bytearray | BatchCheck,
        acks: int,
        version: int,
        verification: Verification | None = None,
        allowance: Allowance | None = None,
    ) -> AppendOutcome | BatchCheck:
        """Append as `append`; or, when the allowance does not suffice, return the check that is to be finished first.

        Then nothing was appended. State that may change meanwhile is checked when the check is passed to `append`: the
        leadership, the replicas in sync, the producer's sequence.
        """
        partition = self.partition
        if partition.role is not Role.LEADER or self.is_frozen:
            return self._refuse_for_now(records, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and not partition.has_enough_replicas:
            return self._refuse_for_now(records, ErrorCode.NOT_ENOUGH_REPLICAS)
        numbered: tuple[bytearray | memoryview, BatchHeader] | Refusal | BatchCheck
        if isinstance(records, BatchCheck):
            numbered = number_checked(records, self.log.log_end_offset, partition.leader_epoch)
        else:
            numbered = number_produced(
                records,
                self._batch_rules,
                self._clock.now_ms(),
                version,
                self.log.log_end_offset,
                partition.leader_epoch,
                allowance,
            )
        if not isinstance(numbered, tuple):
            if isinstance(numbered, BatchCheck):
                return numbered
            return AppendOutcome(
                numbered.code, message=numbered.message, record_errors=numbered.record_errors
            )
        buffer, header = numbered
        if header.attributes & TRANSACTIONAL_BIT and verification is None:
            # A transaction without coordinator would never end, and block the last stable offset without limit.
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return AppendOutcome(code, message="A transactional batch without transactional id")
        if header.producer_id >= 0:
            verdict = self.log.producers.check(header)
            if isinstance(verdict, Duplicate):
                return self._duplicate(verdict)
            if self._recent_refusals:
                verdict = self._after_refusals(header, verdict)
            if verdict is None and verification is not None:
                verdict = self._check_verified(header, verification)
            if verdict is not None:
                return AppendOutcome(verdict)
        return self._append(buffer, header, header.max_timestamp if self._stamps else -1)

    def _refuse_for_now(
        self, records: memoryview | bytearray | BatchCheck, reason: ErrorCode
    ) -> AppendOutcome:
        """Refuse what may be sent again, and remember the producer: its next batches have a gap before them now."""
        buffer = records.buffer if isinstance(records, BatchCheck) else records
        try:
            producer_id = read_header(buffer).producer_id
        except CorruptBatch:
            producer_id = -1
        if producer_id >= 0:
            self._recent_refusals.note(producer_id, reason, self._clock.tick_ms())
        return AppendOutcome(reason)

    def _after_refusals(self, header: BatchHeader, verdict: ErrorCode | None) -> ErrorCode | None:
        """Check a batch again after a gap that may come from a batch refused a moment ago."""
        producer_id = header.producer_id
        if verdict is None and (header.base_sequence == 0 or self.log.producers.knows(producer_id)):
            self._recent_refusals.forget(producer_id)
            return None
        if verdict is not None and verdict is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return verdict
        return self._recent_refusals.reason(producer_id, self._clock.tick_ms()) or verdict

    def _check_verified(self, header: BatchHeader, verification: Verification) -> ErrorCode | None:
        """Judge a batch of a producer with transactional id; None takes it."""
        if verification is UNVERIFIED or not header.attributes & TRANSACTIONAL_BIT:
            return None
        return self.log.producers.check_verified(header, verification)

    def _append(
        self,
        records: memoryview | bytearray,
        header: BatchHeader,
        append_time_ms: int = -1,
        markers: Markers | None = None,
    ) -> AppendOutcome:
        """Write a batch that was judged and numbered."""
        leader_epoch = self.partition.leader_epoch
        try:
            appended = self.log.append(records, (header,), leader_epoch, markers)
        except LogDirectoryFailed as error:
            return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))
        traffic = self.traffic
        traffic.produce_requests += 1
        traffic.messages_in += header.last_offset_delta + 1
        traffic.bytes_in += header.size
        written = appended.written
        if written is None:
            self._advance(header.size)
        else:
            written.add_done_callback(partial(self._written, header.size))
        base_offset = header.base_offset
        # Not by the constructor, which takes three times as long: this is done for each batch.
        return tuple.__new__(
            AppendOutcome,
            (
                ErrorCode.NONE,
                base_offset,
                append_time_ms,
                self.log.log_start_offset,
                base_offset + header.last_offset_delta + 1,
                written,
                None,
                (),
                leader_epoch,
            ),
        )

    def _append_several(
        self, buffer: bytearray, headers: Sequence[BatchHeader], markers: Markers
    ) -> list[AppendOutcome]:
        """Write markers that were judged and numbered, by one write."""
        leader_epoch = self.partition.leader_epoch
        try:
            written = self.log.append(buffer, headers, leader_epoch, markers).written
        except LogDirectoryFailed as error:
            failed = AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))
            return [failed] * len(headers)
        traffic = self.traffic
        traffic.produce_requests += len(headers)
        traffic.messages_in += sum(header.last_offset_delta + 1 for header in headers)
        traffic.bytes_in += len(buffer)
        if written is None:
            self._advance(len(buffer))
        else:
            written.add_done_callback(partial(self._written, len(buffer)))
        return [
            AppendOutcome(
                ErrorCode.NONE,
                header.base_offset,
                log_start_offset=self.log.log_start_offset,
                end_offset=header.last_offset + 1,
                written=written,
                leader_epoch=leader_epoch,
            )
            for header in headers
        ]

    def append_internal(self, records: bytearray) -> AppendOutcome:
        """Append a batch that this broker made itself, for an internal topic."""
        header = read_header(records)
        error = self._internal_error()
        if error is None and header.size > self._batch_rules.max_message_bytes:
            error = ErrorCode.RECORD_LIST_TOO_LARGE
        if error is None and header.producer_id >= 0:
            error = self.log.producers.check_coordinator(header.producer_id, header.producer_epoch)
        return self._append_own(records, header) if error is None else AppendOutcome(error)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndMarker,
        transaction_version: int = 0,
    ) -> AppendOutcome:
        """Append the end of a transaction, unless a newer producer, coordinator or transaction was here already."""
        batch = self._encode_marker(producer_id, producer_epoch, marker, transaction_version)
        if isinstance(batch, ErrorCode):
            return AppendOutcome(batch)
        return self._append_own(batch, read_header(batch), {0: marker})

    def append_markers(
        self, markers: Sequence[tuple[int, int, EndMarker, int]]
    ) -> list[AppendOutcome]:
        """Append the ends of transactions of different producers by one write; see `append_marker`."""
        outcomes: list[AppendOutcome | None] = []
        buffer = bytearray()
        headers: list[BatchHeader] = []
        ends: Markers = {}
        offset, leader_epoch = self.log.log_end_offset, self.partition.leader_epoch
        for marker in markers:
            batch = self._encode_marker(*marker)
            if isinstance(batch, ErrorCode):
                outcomes.append(AppendOutcome(batch))
                continue
            outcomes.append(None)
            position = len(buffer)
            ends[position] = marker[2]
            buffer += batch
            headers.append(assign(buffer, read_header(buffer, position), offset, leader_epoch))
            offset += 1
        appended = iter(self._append_several(buffer, headers, ends) if headers else ())
        return [next(appended) if outcome is None else outcome for outcome in outcomes]

    def _encode_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, transaction_version: int
    ) -> bytearray | ErrorCode:
        """Return the batch of a marker that the partition takes, or why it does not take it."""
        producers = self.log.producers
        error = self._internal_error() or producers.check_marker(
            producer_id,
            producer_epoch,
            marker.coordinator_epoch,
            raises_epoch=transaction_version >= 2,
        )
        if error is not None:
            return error
        if transaction_version < 2:
            producers.void_verification(producer_id)
        return encode_end_marker(marker, producer_id, producer_epoch, self._clock.now_ms())

    def _internal_error(self) -> ErrorCode | None:
        if not self.partition.is_leader or self.is_frozen:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None if self.partition.has_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS

    def _append_own(
        self, records: bytearray, header: BatchHeader, markers: Markers | None = None
    ) -> AppendOutcome:
        end_offset, epoch = self.log.log_end_offset, self.partition.leader_epoch
        return self._append(records, assign(records, header, end_offset, epoch), -1, markers)

    def _duplicate(self, written: Duplicate) -> AppendOutcome:
        """Answer a batch that is in the log already as the first time, and no sooner than that."""
        self.traffic.produce_requests += 1
        return AppendOutcome(
            ErrorCode.NONE,
            written.base_offset,
            written.timestamp if self._stamps else -1,
            self.log.log_start_offset,
            written.last_offset + 1,
            self.log.pending(written.last_offset + 1),
            leader_epoch=self.partition.leader_epoch,
        )

    def _written(self, size: int, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._advance(size)

    def _advance(self, size: int) -> None:
        """Bytes are in the page cache: the high watermark may move."""
        self.appended_bytes += size
        end_offset = self.log.written_offset
        partition = self.partition
        if end_offset > partition.log_end_offset:
            # Only followers make it matter when this is.
            now_ms = self._clock.tick_ms() if partition.followers else 0
            has_moved = partition.appended(end_offset, now_ms)
            if self.log.producers.has_transactions or partition.first_unstable_offset is not None:
                self.note_transactions()
            if has_moved:
                self._on_high_watermark_moved(self.topic_partition)
            if self.observers:
                self.notify_observers()

    def notify_observers(self, *, can_wait: bool = False) -> None:
        """Notify the observers."""
        for observer in list(self.observers):
            observer.notify(can_wait=can_wait)

    def advance_high_watermark(self, now_ms: int) -> None:
        """Advance the high watermark as far as all replicas allow, also when no append or fetch follows."""
        if self.partition.advance_high_watermark(now_ms):
            self.high_watermark_moved()

    def high_watermark_moved(self) -> None:
        """Notify all listeners that a follower's fetch, or the in-sync set, moved the high watermark."""
        self.note_transactions()
        self._on_high_watermark_moved(self.topic_partition)
        self.notify_observers(can_wait=True)

    # -- following

    def role_changed(self) -> None:
        """Note that the partition has begun to lead, or to follow, in a new leader epoch."""
        self.note_transactions()
        self.leader_high_watermark = -1
        if self.partition.is_leader:
            self.log.assign_epoch(self.partition.leader_epoch, self.log.log_end_offset)
        self.notify_observers()

    def note_written(self) -> None:
        """Inform the replication of written offsets; queued writes are reported by a callback of their own, later."""
        self._advance(0)

    def followed(self, size: int, leader_high_watermark: int, leader_log_start_offset: int) -> None:
        """Adopt what the leader's response said; its records, `size` bytes, are written."""
        partition, log_of = self.partition, self.log
        self.appended_bytes += size
        self.traffic.replication_bytes_in += size
        if partition.broker_id in partition.adding_replicas:
            self.traffic.reassignment_bytes_in += size
        self.leader_high_watermark = leader_high_watermark
        has_moved = partition.follower_appended(log_of.written_offset, leader_high_watermark)
        if leader_log_start_offset > log_of.log_start_offset:
            start = min(leader_log_start_offset, partition.high_watermark)
            has_moved = self._follow_log_start(start) or has_moved
        if has_moved:
            self.high_watermark_moved()

    def _follow_log_start(self, offset: int) -> bool:
        self.log.delete_before(offset, self.partition.high_watermark)
        return self.partition.log_start_moved(self.log.log_start_offset)

    @property
    def has_all_committed(self) -> bool:
        """Return whether this follower's log reaches the leader's last known high watermark.

        Before its leader returned one, the in-sync set of LeaderAndIsr decides.
        """
        if self.leader_high_watermark < 0:
            return self.partition.began_in_sync
        return self.leader_high_watermark <= self.log.log_end_offset

    def truncated(self) -> None:
        """Note that the log was truncated by the leader's epochs."""
        self.truncation_count += 1
        self.partition.truncated(self.log.log_end_offset)
        self.note_transactions()
        self.notify_observers()

    def restarted(self) -> None:
        """Note that the log was emptied and begins where the leader's does."""
        self.truncation_count += 1
        self.partition.restarted_at(self.log.log_end_offset)
        self.note_transactions()
        self.notify_observers()

    def note_transactions(self) -> None:
        """Update the last stable offset from the log; transactions that ended below the high watermark are over."""
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
        """Return the topic's cleanup.policy."""
        return self.log.config.cleanup_policy

    def note_log_start(self) -> None:
        """Report the log start to the replication; during a truncation the truncating caller does."""
        if self.lock.locked() and not self.partition.is_leader:
            return
        if self.partition.log_start_moved(self.log.log_start_offset):
            self._on_high_watermark_moved(self.topic_partition)
            self.notify_observers()


def batch_rules(values: Mapping[str, Value]) -> BatchRules:
    """Return the rules of a topic's settings for produced batches."""
    whole = partial(whole_number, values)
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
