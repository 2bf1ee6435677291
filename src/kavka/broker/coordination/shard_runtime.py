"""A shard of a coordinator: drives a machine over its partition of an internal topic.

    event -> machine.handle -> records appended -> committed -> machine.apply -> effects leave
                           '-> must_confirm: a tombstone appended -> committed -'

Groups and transactions are coordinated in the same way: a shard is loaded by replaying its partition, in slices of the
loop's time; what it decides is appended, and answered when the high watermark has passed it. What is not committed in
time is answered as `_overdue` says, and applied all the same when it is committed later: the log is what counts.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kavka.broker.coordination.machine_shell import MachineTimer
from kavka.broker.coordination.partition_replay import PartitionReplay
from kavka.broker.coordination.shard_reply import ShardReply
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.broker.partitions.replica import Replica
from kavka.core.machine import Decision, Machine, SendReply, Token
from kavka.errors import ErrorCode
from kavka.io import Clock
from kavka.storage.failures import CorruptFile
from kavka.wire.codec import CorruptFrame
from kavka.wire.records.batch import Record, build_batch
from kavka.wire.records.compression import Compression
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader

log = logging.getLogger(__name__)

_SLICE_MS = 2
_CONFIRM_MS = 5000
"""Maximum milliseconds to wait for a confirmation: later requests of the connection wait, too."""

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")
F = TypeVar("F")


class Shard(Machine[E_contra, R, F], Protocol[E_contra, R, F]):
    """A machine that begins by loading, and ends when its partition moves away."""

    def loaded(self, now_ms: int) -> Decision[R, F]:
        """Begin to serve: every record of the partition has been applied."""
        ...

    def resign(self, now_ms: int) -> Decision[R, F]:
        """Reply to all waiting requests; the machine is of no use afterwards."""
        ...


class Undecided(Generic[R, F]):
    """A decision with records, or a confirmation, that are in the log and not committed yet."""

    __slots__ = ("deadline_ms", "decision", "end_offset")

    def __init__(self, decision: Decision[R, F], end_offset: int, deadline_ms: int) -> None:
        """Note where the records end, and when clients get an error."""
        self.decision = decision
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms


class ShardRuntime(Generic[E, R, F]):
    """The runtime of one machine, while this broker leads its partition: a later leadership is another shard."""

    _serves_damaged: ClassVar[bool] = True
    """True if what was read before damage to the partition is served, as Kafka does. It may be older than what
    clients got; a kind of shards to which that does harm serves nothing, and its clients wait for another
    leader.
    """

    _confirmation: ClassVar[bytes]
    """An unused key: its tombstone is empty, but its commit proves the leadership."""

    def __init__(
        self,
        replica: Replica,
        machine: Shard[E, R, F],
        compression: Compression,
        append_timeout_ms: int,
        clock: Clock,
        decoder: BatchDecoder,
    ) -> None:
        """Load nothing before `start`; `compression` is that of the records that it writes.

        `append_timeout_ms` bounds how long a reply waits for its records to be committed.
        """
        self._shard = machine
        self._clock = clock
        self._decoder = decoder
        self._replica = replica
        self._compression = compression
        self._append_timeout_ms = append_timeout_ms
        self._tokens: dict[Token, asyncio.Future[Any] | ShardReply] = {}
        self._next_token = 0
        self.malformed_records = 0
        """Records that the load skipped."""
        # Invariant: end offsets ascend through both, those of `_late` first; records are applied in that order.
        self._late: deque[Undecided[R, F]] = deque()
        self._undecided: deque[Undecided[R, F]] = deque()
        # Answers without records that wait for a confirmation; nothing waits for them. End offsets ascend.
        self._confirming: deque[Undecided[R, F]] = deque()
        self._timer = MachineTimer(clock, self._tick)
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False
        self._began_ms = clock.now_ms() - clock.tick_ms()

    # -- what the kinds of shards differ in

    @abstractmethod
    def _from_bytes(self, key: bytes, value: bytes | None) -> R | None:
        """Return a record of the log; None for kinds that are skipped. Raise CorruptFrame."""

    @abstractmethod
    def _to_bytes(self, record: R) -> tuple[bytes, bytes | None]:
        """Return key and value as they go into the log."""

    @abstractmethod
    def _overdue(self, decision: Decision[R, F]) -> None:
        """Reply to requests with records that were not committed in time; these are applied once committed."""

    def _perform(self, effect: F) -> None:
        """Carry out an effect of a committed decision that is no reply."""
        raise AssertionError(f"no shard performs {effect}")

    def _replay_control_batch(self, data: bytes, header: BatchHeader) -> None:
        """Apply a control batch of the log while loading; most kinds of shards have none."""

    def _replay_records(self, records: list[Record], header: BatchHeader) -> None:
        """Apply records of one batch of the log while loading."""
        for stored in records:
            record = self._decode_or_skip(stored)
            if record is not None:
                self._shard.apply(record)

    def _decode_or_skip(self, stored: Record) -> R | None:
        """Return a stored record; None for one that says nothing, or nothing that can be understood.

        A record of another writer must not block, or hide, those of the coordinator behind it.
        """
        if stored.key is None:
            return None
        try:
            return self._from_bytes(stored.key, stored.value)
        except CorruptFrame as error:
            self.malformed_records += 1
            what = "malformed record skipped partition=%s offset=%d reason=%s"
            log.warning(what, self._replica.topic_partition, stored.offset, error)
            return None

    def _encode(self, decision: Decision[R, F]) -> bytearray:
        """Return the batch of a decision's records."""
        return self._batch([self._to_bytes(record) for record in decision.records])

    def _batch(self, records: Sequence[tuple[bytes, bytes | None]]) -> bytearray:
        return build_batch(records, self._now_ms(), self._compression)

    # -- life

    def _now_ms(self) -> int:
        """Return the wall clock's time of this leadership's begin, carried on by the clock that never jumps.

        Sessions must not end because the clock was set.
        """
        return self._began_ms + self._clock.tick_ms()

    def start(self) -> None:
        """Load in the background; an empty partition is loaded at once."""
        if self._replica.log.log_end_offset == self._replica.log.log_start_offset:
            self._loaded()
        else:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    def stop(self) -> None:
        """Reply NOT_COORDINATOR to all waiting requests, and drop all state."""
        self._stopped = True
        if self._loading is not None:
            self._loading.cancel()
        self._timer.cancel()
        self._release_decided(self._shard.resign(self._now_ms()))
        for waiting in self._tokens.values():
            if not waiting.done():
                waiting.set_result(ErrorCode.NOT_COORDINATOR)
        self._tokens.clear()
        self._undecided.clear()
        self._late.clear()
        self._confirming.clear()

    async def _load(self) -> None:
        """Replay the partition into the machine up to its end, then serve.

        What damage on the way means, `_serves_damaged` says. A directory that fails resigns this shard.
        """
        try:
            await PartitionReplay(
                self._replica,
                self._clock,
                self._decoder,
                on_control_batch=self._replay_control_batch,
                on_records=self._replay_records,
            ).run()
        except OSError as error:
            log.error(
                "shard not loaded partition=%s reason=%s", self._replica.topic_partition, error
            )
            return
        except (CorruptFile, CorruptBatch, CorruptFrame) as error:
            topic_partition = self._replica.topic_partition
            if not self._serves_damaged:
                log.error("shard not loaded partition=%s reason=%s", topic_partition, error)
                return
            log.error(
                "shard loaded in part, its log is damaged partition=%s reason=%s",
                topic_partition,
                error,
            )
        except Exception:
            # A bug: what is there must not be taken for missing, so all wait for another leader.
            log.exception("shard not loaded partition=%s", self._replica.topic_partition)
            return
        if not self._stopped:
            self._loaded()

    def _loaded(self) -> None:
        """Begin to serve. A shard that cannot be served answers COORDINATOR_LOAD_IN_PROGRESS as before."""
        try:
            self._run(self._shard.loaded(self._now_ms()))
            self._set_timer()
        except Exception:
            # A bug: half of a shard must not serve, so all wait for another leader.
            log.exception("shard not loaded partition=%s", self._replica.topic_partition)
            self._release_decided(self._shard.resign(self._now_ms()))

    # -- events

    def submit(self, make_event: Callable[[Token], E]) -> asyncio.Future[Any]:
        """Submit the event that `make_event` builds around a new token; the future gets the reply.

        The reply is an ErrorCode when the shard itself cannot answer, as after `stop`.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._submit(make_event, future)
        return future

    def ask(self, make_event: Callable[[Token], E]) -> ShardReply:
        """Submit as `submit` does, without a future."""
        reply = ShardReply()
        self._submit(make_event, reply)
        return reply

    def _submit(
        self, make_event: Callable[[Token], E], reply: asyncio.Future[Any] | ShardReply
    ) -> None:
        token = self._next_token
        self._next_token += 1
        if self._stopped:
            reply.set_result(ErrorCode.NOT_COORDINATOR)
            return
        self._tokens[token] = reply
        self.post(make_event(token))

    def post(self, event: E) -> None:
        """Pass an event to the machine; a stopped shard ignores it."""
        if self._stopped:
            return
        self._run(self._shard.handle(event, self._now_ms()))
        self._set_timer()

    def _run(self, decision: Decision[R, F]) -> None:
        if not decision:
            return
        if decision.records:
            self._append(decision, self._encode(decision), self._undecided)
        elif decision.must_confirm and self._replica.partition.may_be_replaced:
            self._append(decision, self._batch([(self._confirmation, None)]), self._confirming)
        elif self._undecided:
            self._await_commit(decision, 0, self._undecided)
        else:
            self._release_decided(decision)

    def _append(
        self, decision: Decision[R, F], batch: bytearray, waiting: deque[Undecided[R, F]]
    ) -> None:
        outcome = self._replica.append_internal(batch)
        if outcome.error is ErrorCode.NONE:
            high_watermark = self._replica.partition.high_watermark
            if outcome.end_offset > high_watermark or self._undecided or self._late:
                self._await_commit(decision, outcome.end_offset, waiting)
                self._release_committed()
            else:  # as with one replica, always
                self._commit(decision)
            return
        topic_partition, code = self._replica.topic_partition, outcome.error
        if decision.records:
            log.warning("decision not stored partition=%s error=%s", topic_partition, code.name)
        else:
            log.warning(
                "leadership not confirmed partition=%s error=%s", topic_partition, code.name
            )
        self._run(self._shard.failed(decision, code, self._now_ms()))

    def _await_commit(
        self, decision: Decision[R, F], end_offset: int, waiting: deque[Undecided[R, F]]
    ) -> None:
        """Queue a decision; what is committed is to be released next."""
        timeout_ms = self._append_timeout_ms
        if waiting is self._confirming:
            timeout_ms = min(timeout_ms, _CONFIRM_MS)
        waiting.append(Undecided(decision, end_offset, self._now_ms() + timeout_ms))

    def commit_ready(self) -> None:
        """Apply and answer, in order, the decisions with records below the high watermark."""
        # It moves by the shard's own appends, too, before their decisions wait.
        if self._undecided or self._late or self._confirming:
            self._release_committed()
            self._set_timer()

    def _release_committed(self) -> None:
        high_watermark = self._replica.partition.high_watermark
        for waiting in (self._late, self._undecided, self._confirming):
            while waiting and waiting[0].end_offset <= high_watermark:
                self._commit(waiting.popleft().decision)

    def _commit(self, decision: Decision[R, F]) -> None:
        for record in decision.records:
            self._shard.apply(record)
        self._release_decided(decision)

    def _release_decided(self, decision: Decision[R, F]) -> None:
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                self._resolve(effect.token, effect.reply)
            else:
                self._perform(effect)

    def _resolve(self, token: Token, reply: object) -> None:
        """Resolve what a request waits for, unless it is resolved."""
        waiting = self._tokens.pop(token, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    # -- time

    def _deadline_ms(self) -> int | None:
        """Return when there is next something to do: for the machine, or for a reply that waits too long."""
        first_ms = self._shard.deadline_ms()
        for waiting in (self._undecided, self._confirming):
            if waiting and (first_ms is None or waiting[0].deadline_ms < first_ms):
                first_ms = waiting[0].deadline_ms
        return first_ms

    def _set_timer(self) -> None:
        if self._stopped:
            return
        deadline_ms = self._deadline_ms()
        self._timer.set(None if deadline_ms is None else deadline_ms - self._began_ms)

    def _tick(self) -> None:
        """Handle what is due, for one time slice; the rest follows in a later iteration of the loop."""
        now_ms = self._now_ms()
        self._time_out(now_ms)
        slice_end = self._clock.tick_ms() + _SLICE_MS
        while self._clock.tick_ms() < slice_end:
            deadline_ms = self._shard.deadline_ms()
            if deadline_ms is None or deadline_ms > now_ms:
                break
            self._run(self._shard.tick(now_ms))
        self._set_timer()

    def _time_out(self, now_ms: int) -> None:
        """Reply to requests with overdue records; answers behind them wait no longer either."""
        while self._undecided and self._undecided[0].deadline_ms <= now_ms:
            overdue = self._undecided.popleft()
            topic_partition, end_offset = self._replica.topic_partition, overdue.end_offset
            log.warning(
                "decision not committed in time partition=%s end=%d", topic_partition, end_offset
            )
            # Its replies stay: they say what kind of decision it is, and their requests are answered here already.
            self._late.append(overdue)
            self._overdue(overdue.decision)
            self.commit_ready()
        while self._confirming and self._confirming[0].deadline_ms <= now_ms:
            overdue = self._confirming.popleft()
            topic_partition, end_offset = self._replica.topic_partition, overdue.end_offset
            log.warning(
                "leadership not confirmed in time partition=%s end=%d", topic_partition, end_offset
            )
            self._overdue(overdue.decision)
