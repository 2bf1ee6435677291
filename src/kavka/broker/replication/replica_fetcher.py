"""A replica fetcher: one connection to one leader, which fetches all partitions that this broker follows there.

    follow(replica) -> next request of each partition -> one Fetch for all -> appended -> the next Fetch

The decisions are `core.follower`'s; `leader_fetches` has the session and the requests in flight, `leader_endpoint` the
other requests, `partition_steps` what is done to the logs. A connection that breaks is tried again with a back-off; the
leader is the controller's word, so a fetcher never looks for another leader by itself.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final

from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers
from kavka.broker.partitions.replica import Replica
from kavka.broker.replication.fetch_messages import FIRST_WITH_LAST_EPOCH
from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.broker.replication.follower_log import Work
from kavka.broker.replication.leader_endpoint import LeaderEndpoint
from kavka.broker.replication.leader_fetches import LeaderFetches
from kavka.broker.replication.partition_fetch_state import PartitionFetchState
from kavka.broker.replication.partition_steps import PartitionSteps, log_refusal
from kavka.core.fetch_session import FetchPartition, PartitionKey
from kavka.core.follower import (
    Append,
    FetchedPartition,
    FetchRecords,
    SessionRequest,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.fetch import FetchResponsePartition

log = logging.getLogger(__name__)

_FIRST_BACKOFF_MS: Final = 20
_SESSION_ERRORS: Final = (
    ErrorCode.NONE,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class ReplicaFetcher:
    """Follows some partitions of one leader. Its task runs while there are any."""

    def __init__(self, context: FetcherContext, leader: BrokerId, number: int) -> None:
        """Ask nothing before `follow`."""
        self._context = context
        self._leader = leader
        self._name = f"broker-{context.broker_id}-fetcher-{number}"
        self._partitions: dict[TopicPartition, PartitionFetchState] = {}
        # Partitions with a fetch request that may have changed since it was sent.
        self._due: dict[TopicPartition, None] = {}
        self._fetches = LeaderFetches(context)
        self._steps = PartitionSteps(context, self._fetches)
        self._leader_endpoint = LeaderEndpoint(
            context, self._partitions, self._due, self._fetches, self._steps
        )
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._peer: Peer | None = None
        self._backoff_ms = _FIRST_BACKOFF_MS
        self._refusals = RefusalsByBrokers()
        # True if the task waits for the first event; then responses are handled where they arrive.
        self._is_backing_off = False
        self._left: asyncio.Future[Any] | None = None
        self._failure: Exception | None = None

    def __len__(self) -> int:
        """Return how many partitions are followed."""
        return len(self._partitions)

    @property
    def followed(self) -> list[PartitionFetchState]:
        """Return the partitions followed here."""
        return list(self._partitions.values())

    @property
    def requests(self) -> int:
        """Return how many fetches were sent since the start."""
        return self._fetches.requests

    @property
    def bytes_in(self) -> int:
        """Return how many bytes of records came since the start."""
        return self._steps.bytes_in

    @property
    def has_died(self) -> bool:
        """Return whether its task has ended without `stop`."""
        return self._task is not None and self._task.done()

    # -- what is followed

    def follow(self, replica: Replica) -> None:
        """Fetch a partition from now on."""
        self._partitions[replica.topic_partition] = followed = PartitionFetchState(
            replica, self._context.backoff_ms
        )
        self._fetches.add(followed)
        if self._peer is not None:
            self._adapt(followed, self._peer)
        self._due[replica.topic_partition] = None
        self._wake.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop fetching a partition; a response on its way is dropped."""
        followed = self._partitions.pop(topic_partition, None)
        self._due.pop(topic_partition, None)
        if followed is not None:
            self._fetches.remove(followed)

    def wake(self) -> None:
        """Retry now: the leader may be elsewhere, or a throttle has ended."""
        self._due.update(dict.fromkeys(self._partitions))
        self._backoff_ms = _FIRST_BACKOFF_MS
        self._wake.set()

    async def stop(self) -> None:
        """End the task and the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()
        if self._left is not None:
            self._left.cancel()
            await asyncio.gather(self._left, return_exceptions=True)

    # -- the loop

    async def _run(self) -> None:
        while True:
            while not self._partitions:
                self._disconnect()
                self._wake.clear()
                await self._wake.wait()
            try:
                await self._connect()
                await self._run_connected()
            except (OSError, CorruptFrame, KafkaError) as error:
                if not self._refusals.is_refusal(self._leader, error):
                    log.info("fetcher disconnected leader=%d reason=%s", self._leader, error)
                self._disconnect()
                await self._pause()
            except Exception:
                # A bug must not end the fetcher: its partitions would fall behind without another try.
                log.exception("fetcher failed leader=%d", self._leader)
                self._disconnect()
                await self._pause()

    async def _pause(self) -> None:
        """Wait for the back-off, or until `wake` is called."""
        self._wake.clear()
        try:
            async with asyncio.timeout(self._backoff_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            self._backoff_ms = min(2 * self._backoff_ms, self._context.backoff_ms)

    async def _connect(self) -> None:
        if self._peer is not None and not self._peer.is_closed:
            return
        self._peer = peer = await self._context.connect(self._leader, self._name)
        peer.call_when_writable(self._check_connection)
        self._context.leader_reached(self._leader)
        self._backoff_ms = _FIRST_BACKOFF_MS
        for followed in self._partitions.values():
            self._adapt(followed, peer)
        self._due.update(dict.fromkeys(self._partitions))

    def _check_connection(self) -> None:
        """Handle the loss of the connection, and that it is writable again."""
        peer = self._peer
        if peer is None:
            return  # closed from here
        if peer.is_closed:
            self._context.leader_unreachable(self._leader)
        else:
            peer.call_when_writable(self._check_connection)

    def _adapt(self, followed: PartitionFetchState, peer: Peer) -> None:
        checks = peer.version_of(ApiKey.FETCH) >= FIRST_WITH_LAST_EPOCH
        followed.adapt(is_checked_by_fetch=checks, max_backoff_ms=self._context.backoff_ms)

    def _disconnect(self) -> None:
        self._fetches.reset()
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.abort()

    async def _run_connected(self) -> None:
        """Fetch and append until no partition is followed. Raise when the leader cannot be reached."""
        while self._partitions:
            self._wake.clear()
            assert self._peer is not None
            await self._leader_endpoint.send(self._peer)
            self._fetch_due()
            if not self._fetches.has_response:
                await self._wait()
            await self._finish()
            while self._fetches.has_response:
                self._apply_response()
                await self._finish()

    async def _finish(self) -> None:
        """Wait for what a response left to be done. Raise what failed in the task's place."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        left, self._left = self._left, None
        if left is not None:
            await left

    async def _wait(self) -> None:
        """Wait for a response, a new partition, or the end of a partition's back-off."""
        now_ms = self._context.clock.tick_ms()
        until = [
            followed.machine.delayed_until_ms
            for topic_partition in self._due
            if (followed := self._partitions.get(topic_partition)) is not None
        ]
        self._is_backing_off = True
        try:
            async with asyncio.timeout(max(1, min(until) - now_ms) / 1000 if until else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._is_backing_off = False

    # -- records

    def _fetch_due(self) -> None:
        """Update the session with the partitions whose next request has changed, and send what may be sent."""
        peer = self._peer
        assert peer is not None
        now_ms = self._context.clock.tick_ms()
        fetches = self._fetches
        session = fetches.session
        fetches.choose_names(peer, self._due, self._partitions)
        for topic_partition in list(self._due):
            followed = self._partitions.get(topic_partition)
            request = None if followed is None else followed.machine.next_request(now_ms)
            if followed is None:
                del self._due[topic_partition]
            elif not isinstance(request, FetchRecords) or self._context.throttle.throttles(
                followed.replica
            ):
                # Delayed, failed or throttled: it stays due, unless only the controller can help.
                session.drop(fetches.key(followed))
                if request is None and followed.machine.delayed_until_ms <= now_ms:
                    del self._due[topic_partition]
                elif request is not None:
                    followed.machine.delayed_until_ms = now_ms + self._context.throttle_pause_ms
            else:
                del self._due[topic_partition]
                session.put(fetches.key(followed), self._requested(request))
        fetches.post(peer, self._on_response)

    def _requested(self, request: FetchRecords) -> FetchPartition:
        return FetchPartition(
            request.fetch_offset,
            self._context.max_bytes,
            request.leader_epoch,
            request.log_start_offset,
            request.last_fetched_epoch,
        )

    def _on_response(self) -> None:
        """Handle a response and fetch again at once, when the task rests and nothing is to be awaited: the usual case.

        All else is for the task, which comes in the next iteration of the loop.
        """
        if not self._is_backing_off or self._wake.is_set() or not self._fetches.has_response:
            self._wake.set()
            return
        try:
            self._apply_response()
            if self._left is None and self._only_fetches_records:
                self._fetch_due()
        except Exception as error:  # noqa: BLE001 - the task raises it where it is caught
            self._failure = error
        if self._failure or self._left or self._due or not self._fetches.in_flight:
            self._wake.set()

    @property
    def _only_fetches_records(self) -> bool:
        """Return whether every due partition can fetch records at once."""
        for topic_partition in self._due:
            followed = self._partitions.get(topic_partition)
            if followed is not None and not (followed.has_started and followed.machine.is_settled):
                return False
        return True

    def _apply_response(self) -> None:
        """Take the response of the first fetch. What waits for the disk is begun, for all partitions together."""
        fetches = self._fetches
        in_flight = fetches.in_flight.popleft()
        request, response = in_flight.request, in_flight.result()
        error = ErrorCode.of(response.error_code)
        if not fetches.session.response_received(request.number, error, response.session_id):
            self._due.update(dict.fromkeys(self._partitions))
            if error not in _SESSION_ERRORS:
                log.info("fetch refused leader=%d error=%s", self._leader, error.name)
                self._left = asyncio.gather(self._pause())
            return
        steps: list[Work] = []
        for topic in response.responses:
            name = bytes(topic.topic_id) if fetches.by_topic_id else topic.topic
            for partition in topic.partitions:
                step = self._process_partition(
                    request, (name, partition.partition_index), partition
                )
                if step is not None:
                    steps.append(step)
        if not fetches.in_flight:
            fetches.session.resend_superseded()
        if steps:
            self._left = asyncio.gather(*(step() for step in steps))

    def _process_partition(
        self, request: SessionRequest, key: PartitionKey, result: FetchResponsePartition
    ) -> Work | None:
        """Handle the response for one partition; return the remaining work."""
        session = self._fetches.session
        asked = session.requested(key, request.number)
        topic_partition = self._fetches.find(key)
        followed = None if topic_partition is None else self._partitions.get(topic_partition)
        if asked is None or followed is None:
            return None
        self._due[followed.replica.topic_partition] = None
        if not followed.log.is_current:
            session.resend(key)
            followed.machine.delay(self._context.clock.tick_ms())
            return None
        if asked.current_leader_epoch != followed.machine.leader_epoch:
            return None
        question = FetchRecords(
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start_offset,
            asked.current_leader_epoch,
        )
        fetched = FetchedPartition(
            ErrorCode.of(result.error_code),
            result.high_watermark,
            result.log_start_offset,
            result.diverging_epoch.epoch,
            result.diverging_epoch.end_offset,
        )
        now_ms = self._context.clock.tick_ms()
        step = followed.machine.records_fetched(question, fetched, now_ms)
        if fetched.error is not ErrorCode.NONE:
            session.resend(key)
            log_refusal(followed, fetched.error, now_ms)
        elif followed.refused_since_ms is not None:
            followed.note_response()
        if step is None:
            return None
        records = result.records if isinstance(result.records, memoryview) else None
        if isinstance(step, Append):
            return self._steps.append(followed, step, records)
        return partial(self._steps.perform, followed, step)
