"""Fetches ahead of the user: one request at a time per broker, driven by callbacks; the shell around `visible`.

Each answer is buffered per partition and the next request leaves at once for all partitions with less than
`max.partition.fetch.bytes` in the buffer, so that fetching and processing overlap. The buffer of a partition is
thus bounded by about twice that setting.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, NamedTuple

from kavka.client.cluster import Channel, Cluster
from kavka.client.consumer.batches import Chunk, Deserializers, FetchedBatches
from kavka.client.consumer.subscription import PartitionState, ResetPolicy, Subscription
from kavka.client.consumer.visible import visible_chunk
from kavka.doors import Buffer
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader

log = logging.getLogger(__name__)

_NEWEST_BY_NAME = 12
"""Later versions name topics by id."""
_EMPTY_PAUSE_S = 0.05
"""How long a partition without new data is left alone while another one of its broker has a full buffer."""
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
    }
)


class FetchSettings(NamedTuple):
    """What the fetcher needs of the configuration."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    max_partition_bytes: int
    read_committed: bool
    check_crcs: bool
    reset: ResetPolicy | None
    rack: str
    request_timeout_ms: int
    deserializers: Deserializers


class Fetcher:
    """Keeps the buffers of assigned partitions filled. All methods belong to the loop's thread."""

    def __init__(
        self, cluster: Cluster, subscription: Subscription, settings: FetchSettings
    ) -> None:
        """Read positions from the partitions of `subscription`."""
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[BrokerId, asyncio.Future[Any]] = {}
        self._connecting: dict[BrokerId, asyncio.Task[None]] = {}
        self._is_scheduled = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0
        self._failures: dict[str, Exception] = {}  # by message: what repeats is raised once
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Send what may be sent, in the next turn of the loop."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._send_all)

    def notify(self) -> None:
        """Let a waiting poll look around."""
        self._news.set()

    async def close(self) -> None:
        """Stop."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._connecting.values():
            task.cancel()
        await asyncio.gather(*self._connecting.values(), return_exceptions=True)

    # Taking

    async def wait(self, timeout_s: float) -> None:
        """Return when something was buffered or went wrong since the last `take`, or after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    def take(self, max_records: int) -> list[FetchedBatches]:
        """Take buffered records, at most about `max_records`, and move positions past them; partitions take turns.

        Raise what a broker or the data made impossible.
        """
        self._news.clear()
        if self._failures:
            raise self._failures.pop(next(iter(self._failures)))
        states = [
            s for s in self._subscription.partitions.values() if s.buffered and not s.is_paused
        ]
        taken: list[FetchedBatches] = []
        if states:
            self._turn = (self._turn + 1) % len(states)
        for state in states[self._turn :] + states[: self._turn]:
            if max_records <= 0:
                break
            batches, count = self._take_from(state, max_records)
            max_records -= count
            if batches is not None:
                taken.append(batches)
        self.wake()
        return taken

    def _take_from(self, state: PartitionState, room: int) -> tuple[FetchedBatches | None, int]:
        """Take up to `room` records of one partition, cutting a batch by offsets if it is larger."""
        first = state.position
        assert first is not None
        position = first
        spans: list[tuple[Buffer, list[BatchHeader]]] = []
        total = 0
        while state.buffered and total < room:
            chunk: Chunk = state.buffered[0]
            headers: list[BatchHeader] = []
            cut_at: int | None = None
            for header in chunk.headers:
                if header.last_offset < position:
                    continue  # taken before
                start = max(position, header.base_offset)
                count = min(header.record_count, header.last_offset - start + 1)
                headers.append(header)
                if count > room - total:
                    cut_at = start + room - total
                    total = room
                    break
                total += count
                position = header.last_offset + 1
                state.position_epoch = header.partition_leader_epoch
                if total == room:
                    cut_at = position
                    break
            if headers:
                spans.append((chunk.buffer, headers))
            if cut_at is not None and cut_at < chunk.next_offset:
                position = cut_at
                break
            position = chunk.next_offset
            state.buffered.popleft()
            state.buffered_bytes -= chunk.size
        state.position = position
        if not spans:
            return None, 0
        batches = FetchedBatches(
            state.at,
            spans,
            first,
            position,
            check_crcs=self._settings.check_crcs,
            deserializers=self._settings.deserializers,
        )
        return batches, total

    # Fetching

    def _send_all(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        now = self._loop.time()
        wanted: dict[BrokerId, list[PartitionState]] = {}
        full: dict[BrokerId, None] = {}
        for at, state in self._subscription.partitions.items():
            if not state.is_fetchable:
                continue
            broker_id = self._source_of(at, state)
            if broker_id is None:
                self._cluster.mark_stale()
                self._look_again(0.1)
            elif state.retry_at > now:
                self._look_again(state.retry_at - now)
            elif state.buffered_bytes >= self._settings.max_partition_bytes:
                full[broker_id] = None
            else:
                wanted.setdefault(broker_id, []).append(state)
        for broker_id, states in wanted.items():
            if broker_id not in self._in_flight:
                self._send(broker_id, states, broker_id in full)

    def _source_of(self, at: TopicPartition, state: PartitionState) -> BrokerId | None:
        if state.preferred_replica is not None:
            if state.preferred_replica in self._cluster.metadata.brokers:
                return state.preferred_replica
            state.preferred_replica = None
        return self._cluster.metadata.leader(at)

    def _send(self, broker_id: BrokerId, states: list[PartitionState], some_full: bool) -> None:
        peer = self._cluster.connected(broker_id, Channel.FETCH)
        if peer is None:
            if broker_id not in self._connecting:
                self._connecting[broker_id] = self._loop.create_task(self._connect(broker_id))
            return
        settings = self._settings
        # A broker that waits for new data would hold up the partitions whose buffers get free meanwhile.
        wait_ms = 0 if some_full else settings.max_wait_ms
        self._turn += 1
        start = self._turn % len(states)
        ordered = states[start:] + states[:start]  # max.bytes may leave nothing for the last ones
        try:
            version = peer.version_of(ApiKey.FETCH, newest=_NEWEST_BY_NAME)
            request = self._request(ordered, wait_ms)
            timeout_ms = settings.request_timeout_ms + wait_ms
            answer = peer.post(request, version, timeout_ms)
        except (ConnectionError, KafkaError) as error:
            self._fail_or_retry(states, error)
            return
        self._in_flight[broker_id] = answer
        asked = [(state, state.moves) for state in states]
        pause_s = _EMPTY_PAUSE_S if some_full else 0.0
        answer.add_done_callback(partial(self._on_answer, broker_id, asked, pause_s))

    def _request(self, states: list[PartitionState], wait_ms: int) -> FetchRequest:
        settings = self._settings
        topics: dict[str, list[FetchRequestPartition]] = {}
        for state in states:
            topics.setdefault(state.at.topic, []).append(
                FetchRequestPartition(
                    partition=state.at.partition,
                    current_leader_epoch=self._cluster.metadata.leader_epoch(state.at),
                    fetch_offset=state.fetch_position,
                    partition_max_bytes=settings.max_partition_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.read_committed),
            topics=[FetchRequestTopic(topic=t, partitions=p) for t, p in topics.items()],
            rack_id=settings.rack,
        )

    async def _connect(self, broker_id: BrokerId) -> None:
        try:
            await self._cluster.peer(broker_id, Channel.FETCH)
        except (OSError, KafkaError, CorruptFrame) as error:
            log.warning("broker not reached broker=%d reason=%s", broker_id, error)
            for state in self._subscription.partitions.values():
                if state.preferred_replica == broker_id:
                    state.preferred_replica = None
            self._cluster.mark_stale()
        finally:
            self._connecting.pop(broker_id, None)
        self.wake()

    def _look_again(self, wait_s: float) -> None:
        if (
            self._timer is None
            or self._timer.cancelled()
            or self._timer.when() <= self._loop.time()
        ):
            self._timer = self._loop.call_later(max(wait_s, 0.001), self.wake)

    # Answers

    def _on_answer(
        self,
        broker_id: BrokerId,
        asked: list[tuple[PartitionState, int]],
        pause_s: float,
        answer: asyncio.Future[Any],
    ) -> None:
        del self._in_flight[broker_id]
        if self._is_closed or answer.cancelled():
            if not answer.cancelled():
                answer.exception()
            return
        error = answer.exception()
        # A partition that was taken away and given back has another state: what was asked for the old one may lie
        # far behind the new one's position.
        assigned = self._subscription.partitions
        states = [s for s, moves in asked if s.moves == moves and assigned.get(s.at) is s]
        if error is not None:
            log.info("fetch failed broker=%d reason=%s", broker_id, error)
            self._fail_or_retry(states, error)
            self.wake()
            return
        response: FetchResponse = answer.result()
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._fail_or_retry(states, KafkaError(code))
            self.wake()
            return
        current = {state.at: state for state in states}
        for topic in response.responses:
            for part in topic.partitions:
                state = current.get(TopicPartition(topic.topic, part.partition_index))
                if state is not None and state.is_fetchable:
                    self._on_part(state, part, pause_s)
        self.wake()

    def _on_part(self, state: PartitionState, part: FetchResponsePartition, pause_s: float) -> None:
        code = ErrorCode.of(part.error_code)
        if code is not ErrorCode.NONE:
            self._on_error(state, code)
            return
        state.high_watermark = part.high_watermark
        state.last_stable_offset = part.last_stable_offset
        state.log_start_offset = part.log_start_offset
        if part.preferred_read_replica >= 0:
            state.preferred_replica = BrokerId(part.preferred_read_replica)
        if not part.records:
            state.retry_at = self._loop.time() + pause_s
            return
        try:
            assert not hasattr(part.records, "file"), "decoding gives bytes"
            chunk = visible_chunk(
                state, part.records, part.aborted_transactions, self._settings.read_committed
            )
        except CorruptBatch as error:
            detail = f"data of {state.at} from offset {state.fetch_position} on: {error}"
            self._fail(KafkaError(ErrorCode.CORRUPT_MESSAGE, detail))
            state.retry_at = self._loop.time() + self._cluster.retry_backoff_ms(5) / 1000
            return
        if chunk is not None:
            state.fetch_position = chunk.next_offset
            state.buffered.append(chunk)
            state.buffered_bytes += chunk.size
            self._news.set()

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
            log.warning("fetch refused at=%s error=%s", state.at, code.name)
        else:
            self._fail(KafkaError(code, f"{state.at}: {code.message}"))

    def _on_out_of_range(self, state: PartitionState) -> None:
        if state.buffered:
            return  # let the user have what is there; the same answer comes again
        if self._settings.reset is None:
            detail = (
                f"Fetch position {state.fetch_position} is out of range for partition {state.at}"
            )
            self._fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail))
            return
        log.info(
            "position out of range at=%s offset=%d reset=%s",
            state.at,
            state.fetch_position,
            self._settings.reset.name,
        )
        state.ask_reset(self._settings.reset)
        self._news.set()

    def _fail_or_retry(self, states: list[PartitionState], error: BaseException) -> None:
        self._cluster.mark_stale()
        retry_at = self._loop.time() + self._cluster.retry_backoff_ms(0) / 1000
        for state in states:
            state.retry_at = retry_at
        if isinstance(error, KafkaError) and not error.retriable:
            self._fail(error)
        elif isinstance(error, CorruptFrame):
            log.error("fetch answer not understood reason=%s", error)

    def _fail(self, error: Exception) -> None:
        self._failures.setdefault(str(error), error)
        self._news.set()
