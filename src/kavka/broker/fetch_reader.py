"""Reading for one fetch request: which range of which file answers each of its partitions.

The bytes of the answer are shared out in the order of the partitions. The first one with records gets at least one
whole batch, however large, so that a consumer can always go on (KIP-74).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.pace import Pace
from kavka.broker.replica import Replica
from kavka.broker.replication.selector import (
    NO_PREFERENCE,
    RACK_AWARE,
    preferred_read_replica,
)
from kavka.core.fetch_session import FetchOutcome, FetchPartition, PartitionKey
from kavka.core.partition import Role
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.io import Buffer, FileRange
from kavka.storage.disk.partition_directory import SegmentDeleted
from kavka.storage.failures import CorruptFile, LogDirectoryFailed, OffsetOutOfRange
from kavka.storage.log.log_read import LogRange, LogRead
from kavka.wire.messages.fetch import FetchRequest, FetchResponseAbortedTransaction

if TYPE_CHECKING:
    from kavka.broker.services import Services

log = logging.getLogger(__name__)

_FIRST_WITH_BATCHES = 4
_FIRST_WITH_WHOLE_BATCH = 3
_FIRST_WITH_ZSTD = 10
_FIRST_WITH_RACK = 11
_READ_COMMITTED = 1


def is_down_conversion(version: int) -> bool:
    """Return whether a client of this version of Fetch would need an older batch format, which is not served yet."""
    return version < _FIRST_WITH_BATCHES


class PartitionRead:
    """The result for one partition. A caller that does not send `records` calls `release`."""

    __slots__ = (
        "aborted",
        "diverging",
        "key",
        "last_stable_offset",
        "outcome",
        "read",
        "records",
        "replica",
        "transactions",
    )

    def __init__(
        self, key: PartitionKey, outcome: FetchOutcome, last_stable_offset: int = -1
    ) -> None:
        """Begin without records."""
        self.key = key
        self.outcome = outcome
        self.last_stable_offset = last_stable_offset
        self.records: FileRange | Buffer | None = None
        self.read: LogRead | None = None
        self.diverging: tuple[int, int] | None = None
        self.aborted: list[FetchResponseAbortedTransaction] = []
        self.transactions: _Transactions | None = None
        """The range to search for aborted transactions, for read_committed."""
        self.replica: Replica | None = None
        """Of whom it was read: who counts it when it is answered."""

    @property
    def is_uncached(self) -> bool:
        """Return whether the records must be read from disk before they can be sent."""
        return self.read is not None and not self.read.is_cached

    @property
    def is_of_older_segment(self) -> bool:
        """Return whether later segments follow: a read returns records of one segment only, so waiting adds none."""
        if self.replica is None or not isinstance(self.records, LogRange):
            return False
        return not self.replica.log.is_active(self.records)

    @property
    def is_outdated(self) -> bool:
        """Return whether the log can no longer say which of the records were aborted, and the reader asked for
        that.
        """
        if self.transactions is None or not isinstance(self.records, LogRange):
            return False
        return self.records.is_outdated

    def note_aborted(self) -> None:
        """Learn which transactions that touch the records were aborted; read_committed skips them."""
        if self.transactions is not None and isinstance(self.records, LogRange):
            self.aborted = self.transactions.aborted(self.records)

    def release(self) -> None:
        """Give up the records."""
        if self.records is not None and not isinstance(
            self.records, bytes | bytearray | memoryview
        ):
            self.records.release()
        self.records = None

    def refuse(self, code: ErrorCode) -> None:
        """Answer an error in place of the records."""
        self.release()
        self.read = None
        self.outcome = self.outcome._replace(error_code=int(code), records_length=0)


class _Transactions(NamedTuple):
    """The part of a log whose aborted transactions matter: what was asked for, up to the last stable offset."""

    replica: Replica
    offset: int
    end_offset: int

    def aborted(self, records: LogRange) -> list[FetchResponseAbortedTransaction]:
        """Return those that touch the records."""
        found = self.replica.log.aborted_transactions(self.offset, self.end_offset, records)
        return [
            FetchResponseAbortedTransaction(
                producer_id=aborted.producer_id, first_offset=aborted.first_offset
            )
            for aborted in found
        ]


class FetchReader:
    """Reads the partitions of one request, as often as the request wakes up."""

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        version: int,
        partitions: Sequence[tuple[PartitionKey, FetchPartition]],
    ) -> None:
        """`partitions` are those of the session, in the order in which bytes are shared out."""
        self._services = services
        self._request = request
        self._version = version
        self._max_bytes = min(request.max_bytes, services.config.integer("fetch.max.bytes"))
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        """Bytes that the request waits for: at most as many as it can take."""
        self._requested = [(key, asked, self._topic_partition(key)) for key, asked in partitions]
        # Who says its rack may read from followers, and be sent to them (KIP-392).
        self._may_follow = version >= _FIRST_WITH_RACK
        self._rack = ""
        if self._may_follow and services.config.values["replica.selector.class"] == RACK_AWARE:
            self._rack = request.rack_id

    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions that exist here, to wait for."""
        return [
            topic_partition
            for _key, _asked, topic_partition in self._requested
            if topic_partition is not None
        ]

    def appended_bytes(self) -> int:
        """Return how many bytes became readable in all partitions since the broker's start."""
        total = 0
        for topic_partition in self.topic_partitions():
            replica = self._services.replica_manager.find(topic_partition)
            if isinstance(replica, Replica):
                total += replica.appended_bytes
        return total

    def awaits_markers(self) -> bool:
        """Return whether nothing is there that read_committed may read, nor an error to tell."""
        for _key, asked, topic_partition in self._requested:
            replica = (
                None
                if topic_partition is None
                else self._services.replica_manager.find(topic_partition)
            )
            if not isinstance(replica, Replica):
                return False
            if asked.fetch_offset < replica.partition.last_stable_offset:
                return False
        return True

    def read(self) -> list[PartitionRead]:
        """Read every partition as it is now."""
        left = self._max_bytes
        minimum_one = self._version >= _FIRST_WITH_WHOLE_BATCH
        reads = []
        for key, asked, topic_partition in self._requested:
            read = self._read(key, asked, topic_partition, left, minimum_one=minimum_one)
            length = read.outcome.records_length
            if length:
                minimum_one = False
                left = max(0, left - length)
            reads.append(read)
        return reads

    async def read_at(self, pace: Pace) -> list[PartitionRead]:
        """Read as `read`, in slices of the loop's time, for a request with many partitions."""
        reads: list[PartitionRead] = []
        left, minimum_one = self._max_bytes, self._version >= _FIRST_WITH_WHOLE_BATCH
        try:
            for key, asked, topic_partition in self._requested:
                read = self._read(key, asked, topic_partition, left, minimum_one=minimum_one)
                reads.append(read)
                if read.outcome.records_length:
                    minimum_one = False
                    left = max(0, left - read.outcome.records_length)
                if pace.is_over():
                    await pace.rest()
        except BaseException:
            self.release(reads)
            raise
        return reads

    async def load(self, reads: Iterable[PartitionRead]) -> None:
        """Bring the records of cold reads into the page cache."""
        reads = list(reads)
        self._services.request_budget.queue(1)
        try:
            for read in reads:
                if read.is_uncached:
                    await self._load(read)
        except BaseException:
            self.release(reads)
            raise
        finally:
            self._services.request_budget.queue(-1)

    def release(self, reads: Iterable[PartitionRead]) -> None:
        """Give up everything that was read."""
        for read in reads:
            read.release()

    # -- inside

    def _topic_partition(self, key: PartitionKey) -> TopicPartition | None:
        name, partition = key
        if isinstance(name, str):
            return TopicPartition(name, partition)
        topic = self._services.metadata.name_of(TopicId(bytes(name)))
        return None if topic is None else TopicPartition(topic, partition)

    def _read(
        self,
        key: PartitionKey,
        asked: FetchPartition,
        topic_partition: TopicPartition | None,
        left: int,
        *,
        minimum_one: bool,
    ) -> PartitionRead:
        if topic_partition is None:
            return _failed(key, ErrorCode.UNKNOWN_TOPIC_ID)
        replica = self._services.replica_manager.find(topic_partition)
        if isinstance(replica, ErrorCode):
            return _failed(key, replica)
        if self._version < _FIRST_WITH_ZSTD and replica.stores_zstd:
            return _failed(key, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if is_down_conversion(self._version):
            return _failed(key, ErrorCode.UNSUPPORTED_VERSION)
        partition = replica.partition
        may_follow = self._may_follow and partition.role is Role.FOLLOWER
        check = partition.check_leader_epoch if may_follow else partition.check_leader
        error = check(asked.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return _failed(key, error)
        if self._rack and partition.followers:
            preferred = preferred_read_replica(
                self._services.metadata.brokers,
                self._services.broker_id,
                replica,
                self._rack,
                asked.fetch_offset,
            )
            if preferred != NO_PREFERENCE:
                return _redirected(key, replica, preferred)
        return self._read_log(
            key, asked, replica, min(asked.max_bytes, left), minimum_one=minimum_one
        )

    def _read_log(
        self,
        key: PartitionKey,
        asked: FetchPartition,
        replica: Replica,
        max_bytes: int,
        *,
        minimum_one: bool,
    ) -> PartitionRead:
        partition = replica.partition
        diverging = _divergence(replica, asked)
        if diverging is not None:
            read = PartitionRead(
                key,
                FetchOutcome(
                    0,
                    partition.high_watermark,
                    replica.log.log_start_offset,
                    0,
                    has_diverging_epoch=True,
                ),
            )
            read.diverging = diverging
            return read
        committed = self._request.isolation_level == _READ_COMMITTED
        end = partition.readable_end(read_committed=committed)
        if asked.fetch_offset > partition.high_watermark:
            # Beyond what is committed: in range for a moment only when a leader is new; for a consumer it is an error.
            if asked.fetch_offset > partition.log_end_offset:
                return _failed(key, ErrorCode.OFFSET_OUT_OF_RANGE)
            end = asked.fetch_offset
        try:
            # Java's consumer gives up when it gets a part of a batch and nothing else.
            found = replica.log.read(
                asked.fetch_offset, max(0, max_bytes), end, minimum_one, may_cut_first=False
            )
        except OffsetOutOfRange:
            return _failed(key, ErrorCode.OFFSET_OUT_OF_RANGE)
        except LogDirectoryFailed:
            return _failed(key, ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptFile as error:
            return _failed(key, replica.damage_found(error))
        read = PartitionRead(
            key,
            FetchOutcome(0, partition.high_watermark, replica.log.log_start_offset, found.length),
            partition.last_stable_offset,
        )
        read.read, read.records, read.replica = found, found.range, replica
        if committed:
            read.transactions = _Transactions(replica, asked.fetch_offset, end)
            code = _note_aborted(read)
            if code is not ErrorCode.NONE:
                read.release()
                return _failed(key, code)
        return read

    async def _load(self, read: PartitionRead) -> None:
        assert read.read is not None
        assert read.replica is not None
        read.records = None  # `load` owns the range now, and gives it or another one back
        try:
            found = await read.read.load(self._services.disk)
        except OffsetOutOfRange:
            read.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        except OSError:
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        except CorruptFile as error:
            read.refuse(read.replica.damage_found(error))
            return
        read.read, read.records = None, found.range
        if read.is_outdated:
            # The cleaner put another segment in its place: what the index says is not of these records.
            read.release()
            read.outcome = read.outcome._replace(records_length=0)
            return
        code = _note_aborted(read)
        if code is not ErrorCode.NONE:
            read.refuse(code)
            return
        read.outcome = read.outcome._replace(records_length=found.length)


def _redirected(key: PartitionKey, replica: Replica, preferred: int) -> PartitionRead:
    """Answer with another replica in place of records."""
    partition = replica.partition
    outcome = FetchOutcome(
        0,
        partition.high_watermark,
        replica.log.log_start_offset,
        0,
        preferred_read_replica=preferred,
    )
    return PartitionRead(key, outcome, partition.last_stable_offset)


def _note_aborted(read: PartitionRead) -> ErrorCode:
    """Learn which transactions were aborted, or return the error to answer: without them nothing may be shown."""
    replica = read.replica
    assert replica is not None
    try:
        read.note_aborted()
    except (OSError, SegmentDeleted) as error:
        log.warning(
            "aborted transactions not read partition=%s reason=%s", replica.topic_partition, error
        )
        replica.traffic.failed_fetch_requests += 1
        return ErrorCode.KAFKA_STORAGE_ERROR
    except CorruptFile as error:
        return replica.damage_found(error)
    return ErrorCode.NONE


def _failed(key: PartitionKey, code: ErrorCode) -> PartitionRead:
    return PartitionRead(key, FetchOutcome(int(code), -1, -1, 0))


def _divergence(replica: Replica, asked: FetchPartition) -> tuple[int, int] | None:
    """Return where the fetcher's history leaves ours (KIP-595), or None."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = replica.log.epochs.end_offset_for(
        asked.last_fetched_epoch, replica.log.log_end_offset
    )
    if epoch < 0 or end_offset < 0:
        return None
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None
