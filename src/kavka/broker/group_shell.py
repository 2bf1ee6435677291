"""One shard of the group coordinator: drives the machine over its partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kavka.broker.replica import Replica
from kavka.core.group.events import Event
from kavka.core.group.records import Record
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.group.step import GroupDecision
from kavka.core.group.stored import from_bytes, to_bytes
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.storage.failures import CorruptFile, OffsetOutOfRange
from kavka.wire.codec import CorruptFrame
from kavka.wire.records.batch import BatchBuilder, decode_records
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import walk_complete

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

_LOAD_BYTES = 64 * 1024
_SLICE_MS = 2


class _Undecided:
    """A decision whose records are in the log and not committed yet."""

    __slots__ = ("decision", "end_offset")

    def __init__(self, decision: GroupDecision, end_offset: int) -> None:
        self.decision = decision
        self.end_offset = end_offset


class GroupShell:
    """The shell of one `GroupShard`. Its leader epoch is fixed: another leadership is another shard."""

    def __init__(self, broker: Broker, replica: Replica, settings: GroupSettings) -> None:
        """Load nothing before `start`."""
        self.machine = GroupShard(settings)
        self._broker = broker
        self._replica = replica
        self._epoch = replica.partition.leader_epoch
        self._compression = Compression(broker.config.integer("offsets.topic.compression.codec"))
        self._tokens: dict[Token, asyncio.Future[Any]] = {}
        self._next_token = 0
        self._undecided: deque[_Undecided] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False
        self._began_ms = broker.clock.now_ms() - broker.clock.tick_ms()

    def _now_ms(self) -> int:
        """Return the wall clock's time of this leadership's begin, carried on by the clock that never jumps.

        Sessions must not end because somebody set the clock.
        """
        return self._began_ms + self._broker.clock.tick_ms()

    # -- life

    def start(self) -> None:
        """Load in the background; an empty partition is loaded at once."""
        if self._replica.log.log_end_offset == self._replica.log.log_start_offset:
            self._loaded()
        else:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    def stop(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and forget everything."""
        self._stopped = True
        if self._loading is not None:
            self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._leave(self.machine.resign(self._now_ms()))
        for future in self._tokens.values():
            if not future.done():
                future.set_result(ErrorCode.NOT_COORDINATOR)
        self._tokens.clear()
        self._undecided.clear()

    async def _load(self) -> None:
        """Bring the machine up to the end of the partition, then serve.

        As in Kafka, damage on the way does not keep the groups from being served with what was read. A directory that
        fails resigns this shard.
        """
        try:
            await self._replay_log()
        except OSError as error:
            log.error("group shard not loaded partition=%s reason=%s", self._replica.where, error)
            return
        except (CorruptFile, CorruptBatch, CorruptFrame) as error:
            where = self._replica.where
            log.error("group shard loaded up to damage only partition=%s reason=%s", where, error)
        if not self._stopped:
            self._loaded()

    async def _replay_log(self) -> None:
        """Replay the partition up to its end, in slices of the loop's time."""
        started_ms = self._broker.clock.tick_ms()
        offset = self._replica.log.log_start_offset
        end = self._replica.log.log_end_offset
        count = 0
        while offset < end:
            try:
                read = self._replica.log.read(offset, _LOAD_BYTES, end, True)
                if not read.is_cached:
                    read = await read.load(self._broker.host.disk)
            except OffsetOutOfRange:
                offset = self._replica.log.log_start_offset
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
        took_ms = self._broker.clock.tick_ms() - started_ms
        log.info(
            "group shard loaded partition=%s reads=%d took_ms=%d",
            self._replica.where,
            count,
            took_ms,
        )

    async def _replay(self, data: bytes) -> int | None:
        """Apply the records of whole batches; return the offset after them, None when there is none."""
        reached: int | None = None
        slice_end = self._broker.clock.tick_ms() + _SLICE_MS
        for header in walk_complete(data):
            if not header.is_control:
                for stored in decode_records(data, header):
                    record = None if stored.key is None else from_bytes(stored.key, stored.value)
                    if record is not None:
                        self.machine.apply(record)
            reached = header.last_offset + 1
            if self._broker.clock.tick_ms() >= slice_end:
                await asyncio.sleep(0)
                slice_end = self._broker.clock.tick_ms() + _SLICE_MS
        return reached

    def _loaded(self) -> None:
        self._run(self.machine.loaded(self._now_ms()))
        self._set_timer()

    # -- events

    def ask(self, make: Callable[[Token], Event]) -> asyncio.Future[Any]:
        """Tell the machine the event that `make` builds around a new token; the future gets the reply."""
        token = self._next_token
        self._next_token += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._tokens[token] = future
        self.tell(make(token))
        return future

    def tell(self, event: Event) -> None:
        """Tell the machine an event."""
        self._run(self.machine.handle(event, self._now_ms()))
        self._set_timer()

    def _run(self, decision: GroupDecision) -> None:
        if not decision:
            return
        end_offset = 0
        if decision.records:
            outcome = self._replica.append_internal(self._encode(decision.records))
            if outcome.error is not ErrorCode.NONE:
                where, code = self._replica.where, outcome.error
                log.warning("group decision not stored partition=%s error=%s", where, code.name)
                self._run(self.machine.failed(decision, code, self._now_ms()))
                return
            end_offset = outcome.end_offset
        self._undecided.append(_Undecided(decision, end_offset))
        self.commit_ready()

    def commit_ready(self) -> None:
        """Apply and answer, in order, the decisions whose records the high watermark has passed."""
        high_watermark = self._replica.partition.high_watermark
        while self._undecided and self._undecided[0].end_offset <= high_watermark:
            decision = self._undecided.popleft().decision
            for record in decision.records:
                self.machine.apply(record)
            self._leave(decision)
        self._set_timer()

    def _leave(self, decision: GroupDecision) -> None:
        for answer in decision.effects:
            future = self._tokens.pop(answer.token, None)
            if future is not None and not future.done():
                future.set_result(answer.reply)

    def _encode(self, records: tuple[Record, ...]) -> bytearray:
        builder = BatchBuilder()
        now_ms = self._now_ms()
        for record in records:
            key, value = to_bytes(record)
            builder.append(key, value, now_ms)
        return builder.build(self._compression)

    # -- time

    def _set_timer(self) -> None:
        if self._stopped:
            return
        deadline_ms = self.machine.deadline_ms()
        if deadline_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        """Do what is due, for a slice of the loop's time; the rest follows after others had their turn."""
        self._timer, self._timer_ms = None, None
        now_ms = self._now_ms()
        slice_end = self._broker.clock.tick_ms() + _SLICE_MS
        while self._broker.clock.tick_ms() < slice_end:
            deadline_ms = self.machine.deadline_ms()
            if deadline_ms is None or deadline_ms > now_ms:
                break
            self._run(self.machine.tick(now_ms))
        self._set_timer()
