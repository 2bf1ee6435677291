"""A shard of the group coordinator: drives the machine over its partition of `__consumer_offsets`."""

from __future__ import annotations

from typing import ClassVar

from kavka.broker.coordination.shard_runtime import ShardRuntime
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.group.events import Event, Reply, SyncReply
from kavka.core.group.group import MembersMemory
from kavka.core.group.records import (
    GroupRecord,
    OffsetRecord,
    PendingOffsetRecord,
    Record,
    TransactionEnd,
)
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.group.step import GroupDecision
from kavka.core.group.stored import CONFIRMATION, from_bytes, to_bytes
from kavka.core.machine import Decision, SendReply
from kavka.errors import ErrorCode
from kavka.io import Clock
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.batch import Record as StoredRecord
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, decode_end_marker
from kavka.wire.records.header import BatchHeader


class GroupCounts:
    """Counts of the groups of a broker, over the shards that it has and had; Kafka's GroupCoordinatorMetrics."""

    __slots__ = ("commits", "rebalances")

    def __init__(self) -> None:
        """Begin at zero."""
        self.commits = 0
        """Offsets that were committed: a request for ten partitions counts ten times."""
        self.rebalances = 0
        """Assignments of a leader that were committed.

        One that was committed after its timeout, which begins another rebalance, counts as well: as Apache Kafka's.
        """


class GroupShardRuntime(ShardRuntime[Event, Record, SendReply[Reply]]):
    """The shell of one `GroupShard`."""

    _confirmation: ClassVar[bytes] = CONFIRMATION

    def __init__(
        self,
        replica: Replica,
        settings: GroupSettings,
        compression: Compression,
        commit_timeout_ms: int,
        clock: Clock,
        decoder: BatchDecoder,
        members_memory: MembersMemory,
        counts: GroupCounts,
    ) -> None:
        """Load nothing before `start`; `commit_timeout_ms` is `offsets.commit.timeout.ms`.

        `members_memory` and `counts` are those of all groups of the broker.
        """
        self.machine = GroupShard(settings, members_memory)
        self._counts = counts
        super().__init__(replica, self.machine, compression, commit_timeout_ms, clock, decoder)
        self._ends_while_loading: list[tuple[TransactionEnd, int]] = []
        self._is_lost = False  # could not be loaded, and never will be

    def marker_appended(self, producer_id: int, *, committed: bool, end_offset: int) -> None:
        """Note that the partition has the marker of a transaction: it decides about offsets when it is committed."""
        end = TransactionEnd(producer_id, committed)
        if self._is_lost:
            return  # another leader will find the marker in the log
        if self.machine.is_loading:
            self._ends_while_loading.append((end, end_offset))
        else:
            self._await_commit(Decision((end,)), end_offset, self._undecided)
            self.commit_ready()

    async def _load(self) -> None:
        """Replay the partition; after a failure, drop the markers that came meanwhile."""
        await super()._load()
        if self.machine.is_loading:
            self._is_lost = True
            self._ends_while_loading.clear()

    def _loaded(self) -> None:
        """Apply the markers that came meanwhile, then serve. One that was loaded as well changes nothing."""
        ends, self._ends_while_loading = self._ends_while_loading, []
        for end, end_offset in ends:
            self._await_commit(Decision((end,)), end_offset, self._undecided)
        super()._loaded()
        self.commit_ready()

    def _replay_control_batch(self, data: bytes, header: BatchHeader) -> None:
        """Decide the pending offsets of a producer."""
        marker = decode_end_marker(data, header)
        if marker is not None:
            committed = marker.control_type is ControlType.COMMIT
            self.machine.apply(TransactionEnd(header.producer_id, committed))

    def _replay_records(self, records: list[StoredRecord], header: BatchHeader) -> None:
        """Apply records of a batch: in transactions, offsets are pending until the control batch decides."""
        for stored in records:
            record = self._decode_or_skip(stored)
            if header.is_transactional and isinstance(record, OffsetRecord):
                self.machine.apply(_pending(record, header))
            elif record is not None:
                self.machine.apply(record)

    def _encode(self, decision: GroupDecision) -> bytearray:
        """Return the batch of a decision; what a transaction commits is in a transactional one of its producer."""
        first = decision.records[0]
        if not isinstance(first, PendingOffsetRecord):
            return super()._encode(decision)
        builder = BatchBuilder()
        now_ms = self._now_ms()
        for record in decision.records:
            builder.append(*to_bytes(record), now_ms)
        return builder.build(
            self._compression,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            base_sequence=0,
            transactional=True,
        )

    def _from_bytes(self, key: bytes, value: bytes | None) -> Record | None:
        return from_bytes(key, value)

    def _to_bytes(self, record: Record) -> tuple[bytes, bytes | None]:
        return to_bytes(record)

    def _release_decided(self, decision: GroupDecision) -> None:
        """Count what is committed, and answer."""
        for record in decision.records:
            if isinstance(record, OffsetRecord | PendingOffsetRecord):
                self._counts.commits += record.value is not None
            elif isinstance(record, GroupRecord) and record.value is not None:
                # A static member that comes back stores the group as well, and is answered as one that joins. A group
                # that becomes empty is stored, too, and refuses those that wait for an assignment.
                self._counts.rebalances += any(
                    isinstance(effect.reply, SyncReply)
                    and effect.reply.error_code is ErrorCode.NONE
                    for effect in decision.effects
                )
        super()._release_decided(decision)

    def _overdue(self, decision: GroupDecision) -> None:
        """Refuse as the log would have: the waiting request is answered at once, before all others."""
        refused = self.machine.overdue(decision, ErrorCode.REQUEST_TIMED_OUT, self._now_ms())
        tokens = {effect.token for effect in decision.effects}
        others = []
        for effect in refused.effects:
            if effect.token in tokens:
                self._resolve(effect.token, effect.reply)
            else:
                others.append(effect)
        self._run(Decision(refused.records, tuple(others)))


def _pending(record: OffsetRecord, header: BatchHeader) -> PendingOffsetRecord:
    return PendingOffsetRecord(
        record.group_id,
        record.topic,
        record.partition,
        record.value,
        header.producer_id,
        header.producer_epoch,
    )
