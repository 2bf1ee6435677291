"""Reading one partition for a fetch: the one way to the log of consumers' and of followers' fetches.

    find_divergence(replica, …)    where the fetcher's history leaves the log (KIP-595)
    PartitionRead.of(replica)      where the partition is: high watermark, last stable offset, log start offset
      .read_log(replica, …)        a range of a file, or an error; a cold range may not be sent yet
      await .load(disk)            brings a cold range into the page cache, in the pool
      .row(partition)              what the response says of the partition; or
      .release()                   gives up the range of a response that is not sent

`fetch_reader` reads for consumers, which see what is committed; `replication.follower_reader` for followers, which see
the whole log and are learnt about by what they ask for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from kavka.broker.partitions.replica import Replica
from kavka.core.fetch_session import FetchPartition
from kavka.errors import ErrorCode
from kavka.io import Buffer, Disk
from kavka.net.request_budget import RequestBudget
from kavka.storage.failures import CorruptFile, LogDirectoryFailed, OffsetOutOfRange
from kavka.storage.log.log_read import LogRange, LogRead
from kavka.wire.messages.fetch import FetchResponseDivergingEpoch, FetchResponsePartition

_NONE = ErrorCode.NONE


class Divergence(NamedTuple):
    """The last epoch that the logs of leader and fetcher share, and its end offset in the leader's log."""

    epoch: int
    end_offset: int


class PartitionRead:
    """The outcome of a fetch for one partition. A caller that does not send its records calls `release`."""

    __slots__ = (
        "diverging",
        "error",
        "found",
        "high_watermark",
        "last_stable_offset",
        "length",
        "log_start_offset",
        "replica",
    )

    def __init__(self, error: ErrorCode = _NONE) -> None:
        """Find an error, or nothing yet."""
        self.error = error
        self.replica: Replica | None = None
        """The one whose log was read: it counts the fetch when it is answered."""
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.found: LogRead | None = None
        self.length = 0
        """The number of bytes of records."""
        self.diverging: Divergence | None = None

    @classmethod
    def of(cls, replica: Replica) -> Self:
        """Begin to read a replica, at the position that the response will have."""
        read, partition = cls(), replica.partition
        read.high_watermark = partition.high_watermark
        read.last_stable_offset = partition.last_stable_offset
        read.log_start_offset = replica.log.log_start_offset
        return read

    def take_position(self, replica: Replica) -> None:
        """Note where the partition is now."""
        partition = replica.partition
        self.high_watermark = partition.high_watermark
        self.last_stable_offset = partition.last_stable_offset
        self.log_start_offset = replica.log.log_start_offset

    @property
    def is_uncached(self) -> bool:
        """Return whether the records must be read from disk before they can be sent."""
        return self.found is not None and not self.found.is_cached

    @property
    def range(self) -> LogRange | None:
        """The range of the records; None when there are none, or when the place is not known yet."""
        return None if self.found is None else self.found.range

    def fail(self, error: ErrorCode) -> None:
        """Answer an error in place of all that was found."""
        self.release()
        self.error = error
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def read_log(
        self,
        replica: Replica,
        fetch_offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one: bool,
        *,
        may_cut_first: bool = True,
    ) -> bool:
        """Find the records from an offset; false if there is an error instead. Arguments are those of `Log.read`."""
        self.replica = replica
        try:
            self.found = replica.log.read(
                fetch_offset, max_bytes, end_offset, minimum_one, may_cut_first=may_cut_first
            )
        except (OffsetOutOfRange, LogDirectoryFailed, CorruptFile) as error:
            self.fail(_code_of(replica, error))
            return False
        self.length = self.found.length
        return True

    async def load(self, disk: Disk) -> None:
        """Load the records into the page cache, in the pool; an error takes their place if that fails."""
        cold, self.found = self.found, None
        self.length = 0
        assert cold is not None
        assert self.replica is not None
        try:  # `load` owns the range now, and gives it or another one back
            self.found = await cold.load(disk)
            self.length = self.found.length
        except (OffsetOutOfRange, OSError, CorruptFile) as error:
            self.fail(_code_of(self.replica, error))

    @property
    def short_records(self) -> Buffer:
        """The records, if `LogRead.read_short` has read them; else none."""
        found = self.found
        return b"" if found is None or found.records is None else found.records

    def release(self) -> None:
        """Release the records."""
        found, self.found = self.found, None
        self.length = 0
        if found is not None and found.range is not None:
            found.range.release()

    def row(self, partition: int) -> FetchResponsePartition:
        """Return what the response says of the partition, whose records it owns from now on."""
        row = FetchResponsePartition(
            partition_index=partition,
            error_code=self.error,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            log_start_offset=self.log_start_offset,
            records=self.range or b"",
        )
        if self.diverging is not None:
            epoch, end_offset = self.diverging
            row.diverging_epoch = FetchResponseDivergingEpoch(epoch=epoch, end_offset=end_offset)
        return row


def _code_of(replica: Replica, error: Exception) -> ErrorCode:
    """Return the error code of a read that failed."""
    if isinstance(error, OffsetOutOfRange):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if isinstance(error, CorruptFile):
        return replica.damage_found(error)
    return ErrorCode.KAFKA_STORAGE_ERROR


def find_divergence(replica: Replica, asked: FetchPartition) -> Divergence | ErrorCode | None:
    """Return where a fetcher's history leaves the log; OFFSET_OUT_OF_RANGE if none of its epochs is known any more."""
    if asked.last_fetched_epoch < 0:
        return None
    log = replica.log
    epoch, end_offset = log.epochs.end_offset_for(asked.last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or end_offset < 0:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return Divergence(epoch, end_offset)
    return None


async def load_uncached(reads: Iterable[PartitionRead], disk: Disk, budget: RequestBudget) -> None:
    """Load the cold ones, one after the other; the request counts as queued meanwhile."""
    budget.queue(1)
    try:
        for read in reads:
            if read.is_uncached:
                await read.load(disk)
    finally:
        budget.queue(-1)
