"""Reading for one fetch of a consumer: which range of which file answers each of its partitions.

The bytes of the response are shared out in the order of the partitions. The first one with records gets at least one
whole batch, however large, so that a consumer can always continue (KIP-74).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.partitions.partition_read import (
    Divergence,
    PartitionRead,
    find_divergence,
    load_uncached,
)
from kavka.broker.partitions.replica import Replica
from kavka.broker.replication.replica_selector import (
    NO_PREFERENCE,
    RACK_AWARE,
    preferred_read_replica,
)
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.fetch_session import FetchOutcome, FetchPartition, PartitionKey
from kavka.core.partition import Role
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.io import Disk
from kavka.storage.disk.partition_directory import SegmentDeleted
from kavka.storage.failures import CorruptFile
from kavka.storage.log.log_read import LogRange
from kavka.wire.messages.fetch import FetchRequest, FetchResponseAbortedTransaction

if TYPE_CHECKING:
    from kavka.broker.configs.broker_config import BrokerConfig
    from kavka.broker.metadata.cache import MetadataCache
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.requests.context import RequestContext
    from kavka.net.request_budget import RequestBudget

log = logging.getLogger(__name__)

_READ, _TOPIC = AclOperation.READ, AclResourceType.TOPIC
_FIRST_WITH_BATCHES = 4
_FIRST_WITH_WHOLE_BATCH = 3
_FIRST_WITH_ZSTD = 10
_FIRST_WITH_RACK = 11
_READ_COMMITTED = 1


def is_down_conversion(version: int) -> bool:
    """Return whether a client of this version of Fetch would need an older batch format, which is not served yet."""
    return version < _FIRST_WITH_BATCHES


class ConsumerRead(PartitionRead):
    """The outcome of a consumer's fetch for one partition."""

    __slots__ = ("aborted", "key", "preferred_read_replica", "transactions")

    key: PartitionKey
    """Set by the reader."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Find an error, or nothing yet."""
        super().__init__(error)
        self.preferred_read_replica = NO_PREFERENCE
        self.aborted: list[FetchResponseAbortedTransaction] = []
        self.transactions: _Transactions | None = None
        """The range to search for aborted transactions, for read_committed."""

    @property
    def outcome(self) -> FetchOutcome:
        """The facts by which the session decides whether the response includes the partition."""
        return FetchOutcome(
            int(self.error),
            self.high_watermark,
            self.log_start_offset,
            self.length,
            self.preferred_read_replica,
            self.diverging is not None,
        )

    @property
    def is_final(self) -> bool:
        """Return whether waiting for more records would not change it: an error, a redirection, an older segment.

        A read returns records of one segment only, so where later segments follow waiting adds none.
        """
        if self.error or self.diverging is not None or self.preferred_read_replica >= 0:
            return True
        found = self.range
        return (
            found is not None and self.replica is not None and not self.replica.log.is_active(found)
        )

    async def load(self, disk: Disk) -> None:
        """See `PartitionRead.load`. Without its aborted transactions nothing is shown to read_committed."""
        await super().load(disk)
        if self.transactions is None or self.range is None:
            return
        if self.range.is_outdated:
            # The cleaner put another segment in its place: what the index says is not of these records.
            self.release()
        else:
            self.note_aborted()

    def note_aborted(self) -> None:
        """Find the aborted transactions that touch the records, which read_committed skips; fail without them."""
        found = self.range
        if self.transactions is None or found is None:
            return
        replica = self.transactions.replica
        try:
            self.aborted = self.transactions.aborted(found)
        except (OSError, SegmentDeleted) as error:
            what = "aborted transactions not read partition=%s reason=%s"
            log.warning(what, replica.topic_partition, error)
            replica.traffic.failed_fetch_requests += 1
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptFile as error:
            self.fail(replica.damage_found(error))


class _Transactions(NamedTuple):
    """The part of a log in which aborted transactions matter: the requested one, up to the last stable offset."""

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


class ReadableLogs(NamedTuple):
    """The parts of a broker that a consumer's fetch reads from, and what bounds it."""

    broker_id: BrokerId
    config: BrokerConfig
    disk: Disk
    request_budget: RequestBudget
    metadata: MetadataCache
    replica_manager: ReplicaManager


class FetchReader:
    """Reads the partitions of one request, as often as the request wakes up."""

    def __init__(
        self,
        logs: ReadableLogs,
        request: FetchRequest,
        version: int,
        partitions: Sequence[tuple[PartitionKey, FetchPartition]],
        restricted: RequestContext | None = None,
    ) -> None:
        """`partitions` are those of the session, in the order in which bytes are shared out.

        `restricted` says which topics the client may read; None stands for all.
        """
        self._restricted = restricted
        self._logs = logs
        self._request = request
        self._version = version
        self._max_bytes = min(request.max_bytes, logs.config.integer("fetch.max.bytes"))
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        """Bytes that the request waits for: at most as many as it can take."""
        self._requested = [(key, asked, self._topic_partition(key)) for key, asked in partitions]
        # A client with a rack may read from followers, and be sent to them (KIP-392).
        self._may_follow = version >= _FIRST_WITH_RACK
        self._rack = ""
        if self._may_follow and logs.config.values["replica.selector.class"] == RACK_AWARE:
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
            replica = self._logs.replica_manager.find(topic_partition)
            if isinstance(replica, Replica):
                total += replica.appended_bytes
        return total

    def awaits_markers(self) -> bool:
        """Return whether there is no record for read_committed, and no error."""
        for _key, asked, topic_partition in self._requested:
            replica = (
                None
                if topic_partition is None
                else self._logs.replica_manager.find(topic_partition)
            )
            if not isinstance(replica, Replica):
                return False
            if asked.fetch_offset < replica.partition.last_stable_offset:
                return False
        return True

    def read(self) -> list[ConsumerRead]:
        """Read every partition as it is now."""
        return list(self._steps())

    async def read_at(self, pace: Pace) -> list[ConsumerRead]:
        """Read as `read`, in slices of the loop's time, for a request with many partitions."""
        reads: list[ConsumerRead] = []
        try:
            for read in self._steps():
                reads.append(read)
                if pace.is_over():
                    await pace.rest()
        except BaseException:
            self.release(reads)
            raise
        return reads

    def _steps(self) -> Iterator[ConsumerRead]:
        left, minimum_one = self._max_bytes, self._version >= _FIRST_WITH_WHOLE_BATCH
        for key, asked, topic_partition in self._requested:
            read = self._read(asked, topic_partition, left, minimum_one=minimum_one)
            read.key = key
            length = read.length
            if length:
                minimum_one = False
                left = max(0, left - length)
            yield read

    async def load(self, reads: Iterable[ConsumerRead]) -> None:
        """Load the records of cold reads into the page cache."""
        reads = list(reads)
        try:
            await load_uncached(reads, self._logs.disk, self._logs.request_budget)
        except BaseException:
            self.release(reads)
            raise

    def release(self, reads: Iterable[ConsumerRead]) -> None:
        """Release everything that was read."""
        for read in reads:
            read.release()

    # -- inside

    def _topic_partition(self, key: PartitionKey) -> TopicPartition | None:
        name, partition = key
        if isinstance(name, str):
            return TopicPartition(name, partition)
        topic = self._logs.metadata.name_of(TopicId(bytes(name)))
        return None if topic is None else TopicPartition(topic, partition)

    def _read(
        self,
        asked: FetchPartition,
        topic_partition: TopicPartition | None,
        left: int,
        *,
        minimum_one: bool,
    ) -> ConsumerRead:
        if topic_partition is None:
            return ConsumerRead(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._restricted is not None:
            topic = topic_partition.topic
            if not self._restricted.allows(_READ, _TOPIC, topic):
                return ConsumerRead(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        replica = self._logs.replica_manager.find(topic_partition)
        if isinstance(replica, ErrorCode):
            return ConsumerRead(replica)
        if self._version < _FIRST_WITH_ZSTD and replica.stores_zstd:
            return ConsumerRead(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if is_down_conversion(self._version):
            return ConsumerRead(ErrorCode.UNSUPPORTED_VERSION)
        partition = replica.partition
        may_follow = self._may_follow and partition.role is Role.FOLLOWER
        check = partition.check_leader_epoch if may_follow else partition.check_leader
        error = check(asked.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return ConsumerRead(error)
        if self._rack and partition.followers:
            preferred = preferred_read_replica(
                self._logs.metadata.brokers,
                self._logs.broker_id,
                replica,
                self._rack,
                asked.fetch_offset,
            )
            if preferred != NO_PREFERENCE:
                read = ConsumerRead.of(replica)
                read.preferred_read_replica = preferred
                return read
        return self._read_log(asked, replica, min(asked.max_bytes, left), minimum_one=minimum_one)

    def _read_log(
        self, asked: FetchPartition, replica: Replica, max_bytes: int, *, minimum_one: bool
    ) -> ConsumerRead:
        partition = replica.partition
        read = ConsumerRead.of(replica)
        diverging = find_divergence(replica, asked)
        if isinstance(diverging, Divergence):  # an unknown epoch is none of a consumer's business
            read.last_stable_offset = -1
            read.diverging = diverging
            return read
        committed = self._request.isolation_level == _READ_COMMITTED
        end = partition.readable_end(read_committed=committed)
        if asked.fetch_offset > partition.high_watermark:
            # Beyond what is committed: in range for a moment only when a leader is new; for a consumer it is an error.
            if asked.fetch_offset > partition.log_end_offset:
                return ConsumerRead(ErrorCode.OFFSET_OUT_OF_RANGE)
            end = asked.fetch_offset
        # Java's consumer gives up when it gets a part of a batch and nothing else.
        offset, size = asked.fetch_offset, max(0, max_bytes)
        if (
            read.read_log(replica, offset, size, end, minimum_one, may_cut_first=False)
            and committed
        ):
            read.transactions = _Transactions(replica, offset, end)
            read.note_aborted()
        return read
