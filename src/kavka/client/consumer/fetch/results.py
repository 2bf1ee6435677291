"""Results of a fetch for a partition: records for its buffer, a pause, another position, or a failure."""

from __future__ import annotations

import asyncio
import logging

from kavka.client.cluster import Cluster
from kavka.client.consumer.batches import Chunk, CorruptRecordError
from kavka.client.consumer.fetch.isolation_filter import filter_by_isolation
from kavka.client.consumer.fetch.messages import FetchSettings
from kavka.client.consumer.fetch.wakeup import Wakeup
from kavka.client.consumer.subscription import PartitionState, Subscription
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.io import Buffer
from kavka.wire.messages.fetch import FetchResponsePartition
from kavka.wire.records.corrupt import CorruptBatch

log = logging.getLogger(__name__)

_STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FetchResults:
    """Fills the buffers of partitions, and keeps the failures that the next poll raises."""

    def __init__(
        self, cluster: Cluster, subscription: Subscription, settings: FetchSettings
    ) -> None:
        """Begin without failures."""
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.failures: dict[str, Exception] = {}
        """By message: what repeats is raised once."""
        self.wakeup = Wakeup(self._loop)
        """Set when records were buffered, or something needs the poll's attention."""

    def raise_failure(self) -> None:
        """Raise the oldest failure that still concerns the user, if there is one."""
        while self.failures:
            failure = self.failures.pop(next(iter(self.failures)))
            if not self._is_over(failure):
                raise failure

    def fail(self, error: Exception) -> None:
        """Record an error that the next poll raises."""
        self.failures.setdefault(str(error), error)
        self.wakeup.set()

    def on_part(self, state: PartitionState, part: FetchResponsePartition, pause_s: float) -> None:
        """Buffer the records of a partition, or handle its error. Without records it is asked again after the pause."""
        code = ErrorCode.of(part.error_code)
        if code is not ErrorCode.NONE:
            self._on_error(state, code)
            return
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        state.log_start_offset = part.log_start_offset
        if part.preferred_read_replica >= 0:
            state.preferred_replica = BrokerId(part.preferred_read_replica)
            state.preferred_until = self._loop.time() + self._settings.metadata_max_age_ms / 1000
        if not part.records:
            state.retry_at = self._loop.time() + pause_s
            return
        assert not hasattr(part.records, "file"), "decoding gives bytes"
        records: Buffer = part.records
        try:
            chunk = self._committed_only(state, records, part)
        except CorruptBatch as error:
            chunk = self._before_damage(state, records, part, error)
        if chunk is not None:
            state.fetch_position = chunk.next_offset
            state.buffered.append(chunk)
            state.buffered_bytes += chunk.size
            self.wakeup.set()

    def _committed_only(
        self, state: PartitionState, records: Buffer, part: FetchResponsePartition
    ) -> Chunk | None:
        return filter_by_isolation(
            state, records, part.aborted_transactions, self._settings.read_committed
        )

    def _before_damage(
        self,
        state: PartitionState,
        records: Buffer,
        part: FetchResponsePartition,
        error: CorruptBatch,
    ) -> Chunk | None:
        """Return the batches before a damaged one; note the failure once it is the next to be returned."""
        chunk = None
        if error.position > 0:
            chunk = self._committed_only(state, memoryview(records)[: error.position], part)
        if chunk is None:
            state.retry_at = self._loop.time() + self._cluster.retry_backoff_ms(5) / 1000
            if not state.buffered:  # else the same response comes again when the user has had these
                self.fail(CorruptRecordError(state.topic_partition, state.fetch_position, error))
        return chunk

    def _on_error(self, state: PartitionState, code: ErrorCode) -> None:
        state.retry_at = self._loop.time() + self._cluster.retry_backoff_ms(0) / 1000
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica is not None:
                state.preferred_replica = None  # a follower may lag behind: the leader knows
                return
            self._on_out_of_range(state)
            return
        state.preferred_replica = None
        if code in _STALE:
            self._cluster.mark_stale()
        elif code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.warning("fetch refused partition=%s error=%s", state.topic_partition, code.name)
        else:
            self.fail(KafkaError(code, f"{state.topic_partition}: {code.message}"))

    def _on_out_of_range(self, state: PartitionState) -> None:
        if state.buffered:
            return  # let the user have what is there; the same response comes again
        if self._settings.reset is None:
            detail = f"Fetch position {state.fetch_position} is out of range for partition {state.topic_partition}"
            self.fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail))
            return
        log.info(
            "position out of range partition=%s offset=%d reset=%s",
            state.topic_partition,
            state.fetch_position,
            self._settings.reset.name,
        )
        state.request_reset(self._settings.reset)
        self.wakeup.set()

    def _is_over(self, failure: Exception) -> bool:
        """Return whether a failure is about a record that is not the next any more: the user has sought past it."""
        if not isinstance(failure, CorruptRecordError):
            return False
        state = self._subscription.partitions.get(failure.topic_partition)
        return state is None or state.fetch_position != failure.offset
