"""Fetches ahead of the user: one request at a time per broker, driven by callbacks.

Each response is buffered per partition and the next request leaves at once for all partitions with less than
`max.partition.fetch.bytes` in the buffer, so that fetching and processing overlap. The buffer of a partition is
thus bounded by about twice that setting. `results` has what a response means for a partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from kavka.client.cluster import Channel, Cluster
from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.fetch.buffer import drain_buffer
from kavka.client.consumer.fetch.messages import (
    FetchSettings,
    closing_request,
    fetch_request,
    parts_of,
)
from kavka.client.consumer.fetch.results import FetchResults
from kavka.client.consumer.fetch.session import FetchSession, FetchTarget
from kavka.client.consumer.subscription import PartitionState, Subscription
from kavka.client.metadata import LeaderHint
from kavka.core.fetch_session import NO_SESSION
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.fetch import (
    FetchResponse,
)

log = logging.getLogger(__name__)

_FIRST_BY_ID = 13
"""The version from which on topics are named by id."""
_SESSION_OVER = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
_LEADER_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_EMPTY_PAUSE_S = 0.05
"""Pause of a partition without new data while another one of its broker has a full buffer."""


class Fetcher:
    """Keeps the buffers of assigned partitions filled. All methods belong to the loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        settings: FetchSettings,
        on_consumed: Callable[[FetchedBatches, int, int], None],
    ) -> None:
        """Read positions from the partitions of `subscription`.

        `on_consumed` is called with what is returned, its number of records and their bytes.
        """
        self._on_consumed = on_consumed
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._in_flight: set[BrokerId] = set()
        self._connecting: dict[BrokerId, asyncio.Task[None]] = {}
        self._is_scheduled = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._next_start = 0
        self._results = FetchResults(cluster, subscription, settings)
        self._sessions: dict[BrokerId, FetchSession] = {}
        cluster.when_updated(self.wake)

    def wake(self) -> None:
        """Send what may be sent, in the next iteration of the loop."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._send_all)

    def notify(self) -> None:
        """Wake a poll that waits."""
        self._results.wakeup.set()

    async def close(self) -> None:
        """Stop fetching, and end the fetch sessions of the brokers."""
        self._is_closed = True
        self._end_sessions()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._connecting.values():
            task.cancel()
        await asyncio.gather(*self._connecting.values(), return_exceptions=True)

    def _end_sessions(self) -> None:
        """Send the last requests of the sessions, without waiting for the responses."""
        for broker_id, session in self._sessions.items():
            peer = self._cluster.connected(broker_id, Channel.FETCH)
            if peer is None or session.session_id == NO_SESSION:
                continue
            with suppress(
                ConnectionError, KafkaError
            ):  # a broker that is not reached lets the session expire
                peer.post(closing_request(session.session_id)).add_done_callback(_ignore)

    # Draining

    async def wait(self, timeout_s: float) -> None:
        """Return when something was buffered or went wrong since the last `drain`, or after the time."""
        await self._results.wakeup.wait(timeout_s)

    def drain(self, max_records: int) -> list[FetchedBatches]:
        """Take buffered records, at most about `max_records`, and move positions past them; partitions take turns.

        Raise what a broker or the data made impossible.
        """
        self._results.wakeup.clear()
        if self._results.failures:
            self._results.raise_failure()
        states = [
            s for s in self._subscription.partitions.values() if s.buffered and not s.is_paused
        ]
        taken: list[FetchedBatches] = []
        if states:
            self._next_start = (self._next_start + 1) % len(states)
        for state in states[self._next_start :] + states[: self._next_start]:
            if max_records <= 0:
                break
            before = state.buffered_bytes
            batches, count = drain_buffer(
                state,
                max_records,
                check_crcs=self._settings.check_crcs,
                deserializers=self._settings.deserializers,
            )
            max_records -= count
            if batches is not None:
                taken.append(batches)
                self._on_consumed(batches, count, before - state.buffered_bytes)
        if taken and self._is_at_end:
            self._send_later()
        elif taken or self._later is None:
            self._send_wanted()  # now, so that brokers read while the user works on these records
        return taken

    @property
    def _is_at_end(self) -> bool:
        """Return whether all partitions are fetched up to their ends, as of the last fetch: brokers have no more."""
        return all(
            0 <= state.high_watermark <= state.fetch_position
            for state in self._subscription.partitions.values()
        )

    @property
    def holds_up_responses(self) -> bool:
        """Return whether a response may be arriving while records are at hand, so that a poll would not wait for it."""
        return bool(self._in_flight) and any(
            state.buffered for state in self._subscription.partitions.values()
        )

    # Fetching

    def _send_all(self) -> None:
        self._is_scheduled = False
        self._send_wanted()

    def _send_later(self) -> None:
        """Send in the next iteration of the loop, after what a program does with the records that it has got.

        It may produce others, for which a consumer that has read all so far should not keep it waiting.
        """
        if self._later is None:
            self._later = self._loop.call_later(0, self._send_wanted)

    def _send_wanted(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._is_closed:
            return
        now = self._loop.time()
        wanted: dict[BrokerId, list[PartitionState]] = {}
        full: dict[BrokerId, None] = {}
        for topic_partition, state in self._subscription.partitions.items():
            if state.validated_epoch < 0:  # assigned since the last update of the metadata
                state.on_leader(self._cluster.metadata.leader_epoch(topic_partition))
            if not state.is_fetchable:
                continue
            broker_id = self._source_of(topic_partition, state)
            if broker_id is None:
                self._cluster.mark_stale()
                self._schedule(0.1)
            elif state.retry_at > now:
                self._schedule(state.retry_at - now)
            elif state.buffered_bytes >= self._settings.max_partition_bytes:
                full[broker_id] = None
            else:
                wanted.setdefault(broker_id, []).append(state)
        for broker_id, states in wanted.items():
            if broker_id not in self._in_flight:
                self._send(broker_id, states, broker_id in full)

    def _source_of(self, topic_partition: TopicPartition, state: PartitionState) -> BrokerId | None:
        """Return the preferred replica while that is fresh and online, else the leader."""
        preferred = state.preferred_replica
        if preferred is not None:
            known = self._cluster.metadata.partition(topic_partition)
            if (
                self._loop.time() < state.preferred_until
                and preferred in self._cluster.metadata.brokers
                and known is not None
                and preferred in known.replicas
                and preferred not in known.offline_replicas
            ):
                return preferred
            state.preferred_replica = None
        return self._cluster.metadata.leader(topic_partition)

    def _send(self, broker_id: BrokerId, states: list[PartitionState], some_full: bool) -> None:
        peer = self._cluster.connected(broker_id, Channel.FETCH)
        if peer is None:
            if broker_id not in self._connecting:
                self._connecting[broker_id] = self._loop.create_task(self._connect(broker_id))
            return
        if peer.throttled_s > 0:
            self._schedule(peer.throttled_s)
            return
        # A broker that waits for new data would hold up the partitions whose buffers get free meanwhile.
        wait_ms = 0 if some_full else self._settings.max_wait_ms
        self._next_start += 1
        start = self._next_start % len(states)
        ordered = states[start:] + states[:start]  # max.bytes may leave nothing for the last ones
        session = self._sessions.setdefault(broker_id, FetchSession())
        try:
            uses_ids = all(self._topic_id(s.topic_partition) != NO_TOPIC_ID for s in states)
            newest = None if uses_ids else _FIRST_BY_ID - 1
            version = peer.version_of(ApiKey.FETCH, newest=newest)
            wanted = {state.topic_partition: self._wanted(state) for state in ordered}
            what = session.request(wanted, version >= _FIRST_BY_ID)
            request = fetch_request(what, self._settings, wait_ms)
            timeout_ms = self._settings.request_timeout_ms + wait_ms
            asked = {state.topic_partition: (state, state.position_changes) for state in states}
            pause_s = _EMPTY_PAUSE_S if some_full else 0.0
            on_response = partial(self._on_fetched, peer, broker_id, asked, pause_s)
            peer.post_then(request, version, timeout_ms, on_response)
        except (ConnectionError, KafkaError) as error:
            session.lost()
            self._fail_or_retry(states, error)
            return
        self._in_flight.add(broker_id)

    def _topic_id(self, topic_partition: TopicPartition) -> TopicId:
        topic = self._cluster.metadata.topics.get(topic_partition.topic)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    def _wanted(self, state: PartitionState) -> FetchTarget:
        return FetchTarget(
            state.fetch_position,
            self._settings.max_partition_bytes,
            self._cluster.metadata.leader_epoch(state.topic_partition),
            self._topic_id(state.topic_partition),
        )

    async def _connect(self, broker_id: BrokerId) -> None:
        try:
            await self._cluster.peer(broker_id, Channel.FETCH)
        except (OSError, KafkaError, CorruptFrame) as error:
            self._cluster.outage_warnings.warn(log, f"broker not reached broker={broker_id}", error)
            for state in self._subscription.partitions.values():
                if state.preferred_replica == broker_id:
                    state.preferred_replica = None
            self._cluster.mark_stale()
        finally:
            self._connecting.pop(broker_id, None)
        self.wake()

    def _schedule(self, wait_s: float) -> None:
        if (
            self._timer is None
            or self._timer.cancelled()
            or self._timer.when() <= self._loop.time()
        ):
            self._timer = self._loop.call_later(max(wait_s, 0.001), self.wake)

    # Responses

    def _on_fetched(
        self,
        peer: Peer,
        broker_id: BrokerId,
        asked: dict[TopicPartition, tuple[PartitionState, int]],
        pause_s: float,
        response: Any,
        error: Exception | None,
    ) -> None:
        self._in_flight.discard(broker_id)
        if self._is_closed:
            return
        # A partition that was taken away and given back has another state: what was asked for the old one may lie
        # far behind the new one's position.
        assigned = self._subscription.partitions
        current = {
            topic_partition: state
            for topic_partition, (state, moves) in asked.items()
            if state.position_changes == moves and assigned.get(topic_partition) is state
        }
        session = self._sessions[broker_id]
        if error is not None:
            log.info("fetch failed broker=%d reason=%s", broker_id, error)
            session.lost()
            self._fail_or_retry(list(current.values()), error)
        else:
            self._results.wakeup.schedule = peer.call_after_responses
            try:
                self._on_response(session, asked, current, response, pause_s)
            finally:
                self._results.wakeup.schedule = self._loop.call_soon
        if any(state.buffered for state in current.values()):
            self._send_later()  # after a poll that takes them
        else:
            self.wake()

    def _on_response(
        self,
        session: FetchSession,
        asked: Collection[TopicPartition],
        current: dict[TopicPartition, PartitionState],
        response: FetchResponse,
        pause_s: float,
    ) -> None:
        code = ErrorCode.of(response.error_code)
        parts = (
            {} if code is not ErrorCode.NONE else parts_of(response, self._cluster.metadata, asked)
        )
        if not session.on_response(code, response.session_id, parts):
            log.info("fetch session ended reason=%s", code.name)
            if code is ErrorCode.NONE:  # the response was not about what was asked
                self._fail_or_retry(
                    list(current.values()), ConnectionError("an unexpected response")
                )
            elif code not in _SESSION_OVER:
                self._fail_or_retry(list(current.values()), KafkaError(code))
            return
        for topic_partition, state in current.items():
            if not state.is_fetchable:
                continue
            part = parts.get(topic_partition)
            if part is not None:
                self._results.on_part(state, part, pause_s)
            else:  # nothing new in the session
                state.retry_at = self._loop.time() + pause_s
        hints = {
            topic_partition: LeaderHint(
                BrokerId(part.current_leader.leader_id),
                LeaderEpoch(part.current_leader.leader_epoch),
            )
            for topic_partition, part in parts.items()
            if part.error_code in _LEADER_MOVED and part.current_leader.leader_id >= 0
        }
        if hints:
            self._cluster.learn_leaders(hints, response.node_endpoints)

    def _fail_or_retry(self, states: list[PartitionState], error: BaseException) -> None:
        self._cluster.mark_stale()
        retry_at = self._loop.time() + self._cluster.retry_backoff_ms(0) / 1000
        for state in states:
            state.retry_at = retry_at
            state.preferred_replica = None  # the leader can be found, and may prefer another one
        if isinstance(error, KafkaError) and not error.retriable:
            self._results.fail(error)
        elif isinstance(error, CorruptFrame):
            log.error("fetch response not decoded reason=%s", error)


def _ignore(response: asyncio.Future[Any]) -> None:
    if not response.cancelled():
        response.exception()
