"""The append engine of Produce: a request's batches go to the logs that this broker leads, a slice of time at a time.

    append                  batches without a transaction, in the order of the request
    append_in_transaction   the same, but a batch that begins a transaction waits for its coordinator (KIP-890)

Both are generators: they append what their allowance permits, and yield where the request has to continue in a later
iteration of the loop, with the check of a large batch that the pool is to finish first, or with None. `finish` runs
them to their end. What a request may decompress to in all is bounded (decision 030).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kavka.broker.lazy import Lazy
from kavka.broker.partitions.replica import AppendOutcome, Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.broker.partitions.traffic import count_refused_produce
from kavka.broker.produce.produce_outcomes import PartitionOutcome, TopicOutcomes
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.produce import ProduceRequest, ProduceRequestPartition
from kavka.wire.records.batch_check import Allowance, BatchCheck
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import COMPRESSION_MASK, BatchHeader, read_header

if TYPE_CHECKING:
    from kavka.broker.produce.batch_checks import BatchChecks

_NONE = ErrorCode.NONE
_NO_RECORDS = AppendOutcome(ErrorCode.INVALID_RECORD, message="The partition has no records.")

_FIRST_BYTES: Final = 5 << 19
"""Bytes of a request that are checked in the iteration in which it is read: decompressed, or the batch's own."""
_SLICE_BYTES: Final = 1 << 19
"""The same, of each later iteration."""
_BATCH_COST: Final = 16 << 10
"""Cost of a batch besides its bytes, in bytes; the partition included."""
_ROW_COST: Final = 2 << 10
"""Cost of a partition without an append."""
_SMALL_BATCH: Final = 64 << 10
_DECOMPRESSED_BYTES: Final = 256 << 20
_DECOMPRESSED_RATIO: Final = 16
"""A request may decompress to so many bytes, and to so many times the size of its compressed batches."""

TopicRefusal = Callable[[str], AppendOutcome | None]
"""Returns why nothing of the request may be appended to a topic; None when it may."""


class TransactionVerifier(Protocol):
    """The appends of producers with a transactional id, as far as they are needed here; `coordination` is above."""

    def append(
        self,
        replica: Replica,
        transactional_id: str,
        header: BatchHeader | None,
        batch: tuple[memoryview | BatchCheck, int, int],
        *,
        is_only: bool,
    ) -> AppendOutcome | asyncio.Future[AppendOutcome]:
        """Append a batch at once, or when its coordinator has agreed; with it come acks and the request's version.

        `is_only`: its request has no other.
        """
        ...

    def flush(self) -> None:
        """Ask coordinators now, and not in the next iteration of the loop: a request has no more batches."""
        ...


class UnverifiedAppend(NamedTuple):
    """The batch of one partition that is appended when its coordinator has agreed."""

    partition: int
    replica: Replica
    append: asyncio.Future[AppendOutcome]


class TopicAppends(NamedTuple):
    """The batches of one topic in a transaction."""

    name: str
    partitions: list[PartitionOutcome | UnverifiedAppend]


_T = TypeVar("_T")
Steps = Generator[BatchCheck | None, None, _T]
"""Appends a request. It yields a check to finish before it continues, or None to let other requests run."""


def first_allowance() -> Allowance:
    """Return what a request may append in the iteration in which it is read."""
    return Allowance(_FIRST_BYTES, _DECOMPRESSED_BYTES, _DECOMPRESSED_RATIO)


class RequestAppender:
    """Appends the batches of Produce requests."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        verifier: Callable[[], TransactionVerifier],
        batch_checks: Lazy[BatchChecks],
    ) -> None:
        """Take what asks coordinators about transactions, and what finishes checks in the pool."""
        self._find = replica_manager.find
        self._verifier = verifier
        self._batch_checks = batch_checks

    def append(
        self, request: ProduceRequest, version: int, refusal_of: TopicRefusal, allowance: Allowance
    ) -> Steps[list[TopicOutcomes]]:
        """Append to each partition of a request without transaction."""
        topics: list[TopicOutcomes] = []
        for topic in request.topic_data:
            refusal = refusal_of(topic.name)
            outcomes: list[PartitionOutcome] = []
            for data in topic.partition_data:
                if allowance.bytes_left < 0:
                    yield None
                topic_partition = TopicPartition(topic.name, data.index)
                outcome = self._begin_append(
                    topic_partition, data, request.acks, version, refusal, allowance
                )
                if isinstance(outcome, BatchCheck):
                    check = outcome
                    yield check
                    outcome = self._append_checked(topic_partition, check, request.acks, version)
                outcomes.append(outcome)
            topics.append(TopicOutcomes(topic.name, outcomes))
        return topics

    def _begin_append(
        self,
        topic_partition: TopicPartition,
        data: ProduceRequestPartition,
        acks: int,
        version: int,
        refusal: AppendOutcome | None,
        allowance: Allowance,
    ) -> PartitionOutcome | BatchCheck:
        """Append a batch, or return the check that is to be finished before `_append_checked`."""
        index, records = topic_partition.partition, data.records
        replica = self._find(topic_partition)
        if refusal is not None or isinstance(replica, ErrorCode) or not records:
            allowance.bytes_left -= _ROW_COST
            return PartitionOutcome(index, None, refusal or _not_appended(replica))
        assert isinstance(records, memoryview)
        allowance.bytes_left -= len(records) + _BATCH_COST
        outcome = replica.begin_append(records, acks, version, None, allowance)
        if isinstance(outcome, BatchCheck):
            return outcome
        return _counted(index, replica, outcome, len(records))

    def _append_checked(
        self, topic_partition: TopicPartition, check: BatchCheck, acks: int, version: int
    ) -> PartitionOutcome:
        """Append a batch whose check is finished; the partition may have another leader by now."""
        index = topic_partition.partition
        replica = self._find(topic_partition)
        if isinstance(replica, ErrorCode):
            return PartitionOutcome(index, None, AppendOutcome(replica))
        return _counted(index, replica, replica.append(check, acks, version), len(check))

    def append_in_transaction(
        self,
        request: ProduceRequest,
        version: int,
        may_use_id: Callable[[], bool],
        refusal_of: TopicRefusal,
        allowance: Allowance,
    ) -> Steps[list[TopicAppends]]:
        """Append batches of open transactions at once, the others when their coordinator has agreed (KIP-890).

        `may_use_id` says whether the client may write with its transactional id; it is asked for transactional batches.
        """
        headers = yield from _headers(request, allowance)
        known = [header for some in headers for header in some if header is not None]
        unauthorized, mixture = _unauthorized(may_use_id, known), _mixture(known)
        appends: list[TopicAppends] = []
        for topic, some in zip(request.topic_data, headers, strict=True):
            refusal = unauthorized or refusal_of(topic.name) or mixture
            rows: list[PartitionOutcome | UnverifiedAppend] = []
            for data, header in zip(topic.partition_data, some, strict=True):
                if allowance.bytes_left < 0:
                    yield None
                allowance.bytes_left -= _ROW_COST
                topic_partition = TopicPartition(topic.name, data.index)
                batch = refusal or self._begin_check(
                    topic_partition, data, header, version, allowance
                )
                if isinstance(batch, BatchCheck) and not batch.advance():
                    yield batch
                rows.append(self._append_verified(topic_partition, batch, header, request, version))
            appends.append(TopicAppends(topic.name, rows))
        if any(isinstance(row, UnverifiedAppend) for topic in appends for row in topic.partitions):
            self._verifier().flush()
        return appends

    def append_only_in_transaction(
        self,
        request: ProduceRequest,
        version: int,
        may_use_id: Callable[[], bool],
        refusal_of: TopicRefusal,
    ) -> TopicAppends | None:
        """Append as `append_in_transaction` what needs no allowance: one small batch. None for any other request."""
        if not _has_one_partition(request):
            return None
        topic = request.topic_data[0]
        data = topic.partition_data[0]
        header = _header(data.records)
        if header is None or _is_checked_first(header):
            return None
        refusal = _unauthorized(may_use_id, [header]) or refusal_of(topic.name)
        topic_partition = TopicPartition(topic.name, data.index)
        batch = refusal or data.records
        assert isinstance(batch, memoryview | AppendOutcome)
        row = self._append_verified(topic_partition, batch, header, request, version)
        if isinstance(row, UnverifiedAppend):
            self._verifier().flush()
        return TopicAppends(topic.name, [row])

    def _begin_check(
        self,
        topic_partition: TopicPartition,
        data: ProduceRequestPartition,
        header: BatchHeader | None,
        version: int,
        allowance: Allowance,
    ) -> memoryview | BatchCheck | AppendOutcome:
        """Return the batch to append, or its check if that may take long; an AppendOutcome refuses it."""
        replica, records = self._find(topic_partition), data.records
        if isinstance(replica, ErrorCode) or not records:
            return _not_appended(replica)
        assert isinstance(records, memoryview)
        allowance.bytes_left -= len(records) + _BATCH_COST
        if _is_checked_first(header):
            return replica.begin_check(records, version, allowance)
        return records

    def _append_verified(
        self,
        topic_partition: TopicPartition,
        batch: memoryview | BatchCheck | AppendOutcome,
        header: BatchHeader | None,
        request: ProduceRequest,
        version: int,
    ) -> PartitionOutcome | UnverifiedAppend:
        """Append a batch at once, or when its coordinator has agreed."""
        assert request.transactional_id is not None
        index = topic_partition.partition
        if isinstance(batch, AppendOutcome):
            return PartitionOutcome(index, None, batch)
        replica = self._find(topic_partition)
        if isinstance(replica, ErrorCode):
            return PartitionOutcome(index, None, AppendOutcome(replica))
        append = self._verifier().append(
            replica,
            request.transactional_id,
            header,
            (batch, request.acks, version),
            is_only=_has_one_partition(request),
        )
        if isinstance(append, AppendOutcome):
            return PartitionOutcome(index, replica, append)
        return UnverifiedAppend(index, replica, append)

    async def finish(self, steps: Steps[_T], wanted: BatchCheck | None, allowance: Allowance) -> _T:
        """Run the steps that are left, in later iterations of the loop; `wanted` is what the last one yielded."""
        while True:
            if wanted is None:
                await asyncio.sleep(0)
            else:
                await self._batch_checks.get().finish(wanted)
            allowance.bytes_left = _SLICE_BYTES
            try:
                wanted = next(steps)
            except StopIteration as stop:
                appended: _T = stop.value
                return appended


def _has_one_partition(request: ProduceRequest) -> bool:
    """Return whether a request is for one partition only."""
    return len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1


def _not_appended(found: Replica | ErrorCode) -> AppendOutcome:
    """Return what is answered of a partition that is not led here, or of which nothing was sent."""
    return AppendOutcome(found) if isinstance(found, ErrorCode) else _NO_RECORDS


def _counted(index: int, replica: Replica, outcome: AppendOutcome, size: int) -> PartitionOutcome:
    """Return what became of a batch of `size` bytes; a refusal is counted in the topic's metrics."""
    if outcome.error is not _NONE:
        count_refused_produce(replica.traffic, outcome.error, size)
    return PartitionOutcome(index, replica, outcome)


def _headers(
    request: ProduceRequest, allowance: Allowance
) -> Steps[list[list[BatchHeader | None]]]:
    """Read the header of each batch, by topic and partition."""
    headers: list[list[BatchHeader | None]] = []
    for topic in request.topic_data:
        headers.append([])
        for data in topic.partition_data:
            if allowance.bytes_left < 0:
                yield None
            allowance.bytes_left -= _ROW_COST
            headers[-1].append(_header(data.records))
    return headers


def _is_checked_first(header: BatchHeader | None) -> bool:
    """Return whether a batch may take long: then it is checked before its coordinator is asked."""
    return header is not None and (
        header.attributes & COMPRESSION_MASK != 0 or header.size > _SMALL_BATCH
    )


def _header(records: object) -> BatchHeader | None:
    """Return the header of an unvalidated batch; None when there is none, which `append` refuses."""
    try:
        return read_header(records) if isinstance(records, memoryview) else None
    except CorruptBatch:
        return None


def _unauthorized(
    may_use_id: Callable[[], bool], headers: list[BatchHeader]
) -> AppendOutcome | None:
    """Refuse a request with transactional batches whose client may not write with its transactional id."""
    if not any(header.is_transactional for header in headers) or may_use_id():
        return None
    return AppendOutcome(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _mixture(headers: list[BatchHeader]) -> AppendOutcome | None:
    """Refuse a request with transactional batches of several producers."""
    producers = {(h.producer_id, h.producer_epoch) for h in headers if h.is_transactional}
    if len(producers) <= 1:
        return None
    message = "Transactional records contained more than one producer ID"
    return AppendOutcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message=message)


def finished_topics(appends: list[TopicAppends]) -> list[TopicOutcomes]:
    """Return what became of the topics of which nothing waits."""
    topics = []
    for name, rows in appends:
        finished: list[PartitionOutcome] = []
        for row in rows:
            if isinstance(row, PartitionOutcome):
                finished.append(row)
            elif row.append.done():
                finished.append(PartitionOutcome(row.partition, row.replica, row.append.result()))
        if len(finished) == len(rows):
            topics.append(TopicOutcomes(name, finished))
    return topics


async def wait_until_verified(appends: list[TopicAppends]) -> list[TopicOutcomes]:
    """Wait until everything that waits for its coordinator is appended or refused."""
    unverified = [
        row.append
        for topic in appends
        for row in topic.partitions
        if isinstance(row, UnverifiedAppend)
    ]
    if unverified:
        await asyncio.wait(unverified)
    return finished_topics(appends)
