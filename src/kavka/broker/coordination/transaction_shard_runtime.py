"""A shard of the transaction coordinator: drives the machine over its partition of `__transaction_state`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import ClassVar

from kavka.broker.context import BrokerContext
from kavka.broker.control.producer_ids import NoProducerId, ProducerIdManager
from kavka.broker.coordination.shard_runtime import ShardRuntime
from kavka.broker.coordination.transaction_marker_manager import TransactionMarkerManager
from kavka.broker.lazy import Lazy
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.machine import Decision, SendReply
from kavka.core.transaction.events import (
    Effect,
    Event,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGiven,
    ProducerIdRefused,
    SendMarkers,
    TimedOut,
    TransactionDecision,
)
from kavka.core.transaction.records import TransactionRecord
from kavka.core.transaction.settings import TransactionSettings
from kavka.core.transaction.shard import TransactionShard
from kavka.core.transaction.stored import CONFIRMATION, from_bytes, to_bytes
from kavka.errors import ErrorCode
from kavka.registry.interface import RegistryRefused
from kavka.wire.records.compression import Compression

log = logging.getLogger(__name__)

_RECORD_BYTES = 60
"""Of the record of a transaction that is complete, besides its id."""
_MAX_BATCH_BYTES = 16_384
"""A batch that is too large for the topic would be refused with all its records, which are then appended one by one."""


class TransactionShardRuntime(ShardRuntime[Event, TransactionRecord, Effect]):
    """The runtime of a `TransactionShard`."""

    # Before damage there may be a Prepare... with its end, and the id's next transaction, behind it. Its markers,
    # sent again, would end that transaction early, and perhaps with another outcome than its producer gets.
    _serves_damaged: ClassVar[bool] = False
    _confirmation: ClassVar[bytes] = CONFIRMATION

    def __init__(
        self,
        context: BrokerContext,
        replica: Replica,
        settings: TransactionSettings,
        markers: TransactionMarkerManager,
        decoder: BatchDecoder,
        producer_ids: Lazy[ProducerIdManager],
    ) -> None:
        """Load nothing before `start`."""
        self.machine = TransactionShard(settings)
        timeout_ms = context.config.integer("request.timeout.ms")
        super().__init__(
            replica,
            self.machine,
            Compression.NONE,
            timeout_ms,
            context.clock,
            decoder,
        )
        self._producer_ids = producer_ids
        self._markers = markers
        self.coordinator_epoch = replica.partition.leader_epoch
        """The leader epoch of this leadership, which fences markers of former coordinators.

        Not that of the partition, which moves on before this shell is notified that it is a former coordinator.
        """
        self._awaits_commit = False
        # A dict, not a set: the order in which they are cancelled can be seen.
        self._allocations: dict[asyncio.Task[None], None] = {}

    def now_ms(self) -> int:
        """Return the time by which transactions are as old as they are."""
        return self._now_ms()

    def stop(self) -> None:
        """Reply NOT_COORDINATOR to all waiting requests, stop sending markers, and drop all state.

        A broker that stops as the leader writes the ends that are owed, so that no marker is sent again at the start.
        """
        if not self._stopped and self._replica.partition.is_leader:
            while owed := self.machine.write_owed(self._now_ms()):
                self._run(owed)
        super().stop()
        self._markers.forget(self)
        for task in list(self._allocations):
            task.cancel()

    def post_all(self, events: Sequence[MarkersWritten]) -> None:
        """Pass events to the machine; the records that they lead to are appended in batches (group commit)."""
        if self._stopped:
            return
        now_ms, size = self._now_ms(), 0
        records: list[TransactionRecord] = []
        effects: list[Effect] = []
        for event in events:
            decision = self.machine.handle(event, now_ms)
            records += decision.records
            effects += decision.effects
            size += len(event.transactional_id) + _RECORD_BYTES
            if size > _MAX_BATCH_BYTES:
                self._run(Decision(tuple(records), tuple(effects)))
                records, effects, size = [], [], 0
        self._run(Decision(tuple(records), tuple(effects)))
        self._set_timer()

    # -- what a shard of transactions does in its own way

    def _loaded(self) -> None:
        """Serve when all that was read is committed.

        An outcome that another leader might not have must not be sent to clients, let alone to partitions.
        """
        self._awaits_commit = (
            self._replica.partition.high_watermark < self._replica.log.log_end_offset
        )
        if not self._awaits_commit:
            super()._loaded()

    def commit_ready(self) -> None:
        """Release decisions below the high watermark; when it has passed all that was loaded, begin to serve."""
        if self._awaits_commit:
            self._loaded()
        super().commit_ready()

    def _set_timer(self) -> None:
        """Set the timer, unless all that is due is later than before: nearly every event leaves it alone."""
        is_waiting = self._undecided or self._confirming
        if is_waiting or self.machine.is_due_earlier or not self._timer.is_set:
            super()._set_timer()

    def _from_bytes(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return from_bytes(key, value)

    def _to_bytes(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return to_bytes(record)

    def _overdue(self, decision: TransactionDecision) -> None:
        """Reply COORDINATOR_NOT_AVAILABLE: clients retry, as the decision stands until the append ends.

        Taking it back, as a group's is, could give a transaction two outcomes: the record is in the log already.
        """
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                self._resolve(effect.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SendMarkers():
                self._markers.send(self, effect)
            case NeedProducerId():
                self._give_producer_id(effect.transactional_id)
            case TimedOut():
                log.warning(
                    "transaction timed out id=%s producer_id=%d open_ms=%d timeout_ms=%d",
                    effect.transactional_id,
                    effect.producer_id,
                    effect.open_ms,
                    effect.timeout_ms,
                )
            case SendReply():
                raise AssertionError("answers are settled before")

    def _give_producer_id(self, transactional_id: str) -> None:
        """Pass an id to the machine, at once or when there is a further block of them."""
        producer_id = self._producer_ids.get().take()
        if producer_id is not None:
            self.post(ProducerIdGiven(transactional_id, producer_id))
            return
        task = asyncio.get_running_loop().create_task(self._allocate_producer_id(transactional_id))
        self._allocations[task] = None
        task.add_done_callback(self._allocations.pop)

    async def _allocate_producer_id(self, transactional_id: str) -> None:
        try:
            producer_id = await self._producer_ids.get().next()
        except (ConnectionError, RegistryRefused):
            # What Kafka 3.9 answers while it has no block of ids.
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self.post(ProducerIdRefused(transactional_id, error))
        except NoProducerId as refused:
            log.error("no producer id id=%s reason=%s", transactional_id, refused)
            self.post(ProducerIdRefused(transactional_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        except Exception:
            # A bug: without a reply the transactional id would wait without limit.
            log.exception("no producer id id=%s", transactional_id)
            self.post(ProducerIdRefused(transactional_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            self.post(ProducerIdGiven(transactional_id, producer_id))
