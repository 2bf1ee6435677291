"""The consumer's public face: positions, polling and commits; fetcher and group member do the work behind it."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kavka.client import arguments
from kavka.client.client import Client
from kavka.client.config import CONSUMER
from kavka.client.consumer.auto_commit import AutoCommit, ConsumerCalls
from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches
from kavka.client.consumer.consumed_positions import ConsumedPositions
from kavka.client.consumer.consumer_meter import ConsumerMeter
from kavka.client.consumer.fetch.fetcher import Fetcher
from kavka.client.consumer.group.coordinator import ConsumerCoordinator
from kavka.client.consumer.group.rebalance_listener import RebalanceListener, checked_listener
from kavka.client.consumer.interceptors import ConsumerInterceptors
from kavka.client.consumer.log_offsets import LogOffsets
from kavka.client.consumer.offsets import CommittedOffsets
from kavka.client.consumer.positions import Positions
from kavka.client.consumer.record_iteration import RecordIteration
from kavka.client.consumer.seeker import Seeker
from kavka.client.consumer.settings import commits_by_itself, fetch_settings, group_settings
from kavka.client.consumer.subscription import (
    PartitionState,
    ResetPolicy,
    Subscription,
    as_offsets,
)
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.client.metrics.network import ClientMeter
from kavka.client.metrics.sensors import Window
from kavka.client.partitions import partition_of, partitions_of
from kavka.client.pending_calls import PendingCalls, until_closed
from kavka.core.group_member.steps import GroupMetadata, OffsetAndMetadata
from kavka.ids import TopicPartition
from kavka.io import Clock, Network, Random

log = logging.getLogger(__name__)

_MAX_WAIT_S = 1.0
"""A waiting poll looks around at least this often."""


class Consumer(Client):
    """Reads records, alone (`assign`) or as a member of a group (`subscribe`).

    `poll` returns lazy batches per partition; iterating over the consumer gives single records. Positions move
    when batches are returned, and in an iteration record by record. With `enable.auto.commit` and a `group.id`,
    positions are committed in the background of polls: what was returned before the last poll counts as
    processed.

    A record that cannot be deserialized, and a corrupt batch, end what is returned: the records before it come
    first, then RecordDeserializationError or CorruptRecordError is raised, which name the place, and raised again
    until the user seeks past it.
    """

    _catalogue = CONSUMER

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Check the settings (ValueError names the wrong one); nothing is opened before `start`."""
        super().__init__(config, network=network, clock=clock, random=random)
        checked = self._config
        self._creates_topics = checked.flag("allow.auto.create.topics")
        self._group_id = checked.optional_text("group.id") or None
        self._fetch_settings = fetch_settings(checked)
        self._group_settings = group_settings(checked, self._group_id or "")
        self._max_poll_records = checked.integer("max.poll.records")
        self._api_timeout_ms = checked.integer("default.api.timeout.ms")
        self._interceptors = ConsumerInterceptors(checked.interceptors("on_consume", "on_commit"))
        self._commits = commits_by_itself(checked, self._group_id)
        self._begin()

    def _begin(self) -> None:
        """Begin without topics and partitions: as it is made, and when it is started again."""
        self._auto_commit: AutoCommit | None = None
        self._subscription = Subscription()
        self._is_closing = False
        self._polls = PendingCalls("consumer")
        self.iteration = RecordIteration(self._poll_for_iteration)
        """The records that an iteration has at hand."""

    def _loss_when_unclosed(self) -> str:
        if self._group_id is None or not self._subscription.uses_group:
            return ""
        return (
            f"it stays in group {self._group_id} until its session times out, and its positions since the last "
            "commit are lost"
        )

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self.iteration.discard()  # the records are the parent's to process

    def _require_reading(self) -> None:
        self._require_open()
        if self._is_closing:
            raise RuntimeError("the consumer is closing")

    def _make_meter(self, client_id: str, clock: Clock, window: Window) -> ClientMeter:
        self._counts = ConsumerMeter(client_id, clock, window)
        return self._counts

    def _build(self) -> None:
        self._begin()
        read_committed = self._fetch_settings.read_committed
        self._fetcher = Fetcher(
            self._cluster, self._subscription, self._fetch_settings, self._counts.consumed
        )
        self._seeker = Seeker(self._subscription, self.iteration, self._fetcher, self._require_open)
        self._counts.partitions = self._subscription.states
        self._coordinator = ConsumerCoordinator(
            self._cluster,
            self._subscription,
            self._group_settings,
            before_revoke=self._commit_before_revoke,
            on_change=self._fetcher.notify,
            on_joined=self._counts.rebalanced,
        )
        self._offsets = CommittedOffsets(
            self._cluster, self._coordinator, self._group_settings.member
        )
        self._cluster.when_updated(self._fetcher.notify)  # it may refuse a topic
        self._positions = Positions(
            self._cluster,
            self._subscription,
            self._offsets if self._group_id else None,
            reset=self._fetch_settings.reset,
            read_committed=read_committed,
            timeout_ms=self._api_timeout_ms,
            on_change=self._fetcher.notify,
        )
        self._consumed = ConsumedPositions(
            self._subscription, self.iteration, self._positions, read_committed=read_committed
        )
        self._log_offsets = LogOffsets(
            self._cluster, read_committed=read_committed, timeout_ms=self._api_timeout_ms
        )
        if self._commits:
            self._auto_commit = AutoCommit(
                self._subscription,
                ConsumerCalls(
                    self._consumed.offsets,
                    self.commit,
                    lambda: self._coordinator.member.is_groupless,
                ),
                self._group_settings.member.group_id,
                self._config.integer("auto.commit.interval.ms"),
                self._api_timeout_ms,
            )

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Commit if so configured, leave the group and close the connections, within `timeout_ms`.

        A poll of another task ends with RuntimeError at once, its other calls when the connections are closed. What
        the listener raises is raised when all that is done.

        While an exception is handled, the record that an iteration returned last does not count as processed.
        """
        if not self._is_open or self._is_closing:
            return
        self._require_loop()
        limit_ms = arguments.timeout(timeout_ms)
        if sys.exc_info()[0] is not None:
            self.iteration.put_back_last()
        self._is_closing = True  # a listener may still commit, seek and ask for positions
        self._polls.end()
        limit = asyncio.timeout(limit_ms / 1000)
        try:
            async with limit:
                await self._commit_before_revoke()
                if self._group_id is not None and self._subscription.uses_group:
                    await self._coordinator.close()
        except TimeoutError:
            if not limit.expired():  # the listener's own
                raise
            log.warning("consumer closed without leaving its group group=%s", self._group_id)
        finally:
            self._is_open = False
            self._calls.end()
            if self._auto_commit is not None:
                await self._auto_commit.close()
            await self._positions.close()
            await self._fetcher.close()
            await self._cluster.close()
            self._stop_reporting()

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, by name or all that match `pattern` as a whole, sharing them with the group.

        It replaces an earlier subscription; a listener's, while the consumer is being closed, has no effect. Raise
        RuntimeError without `group.id` or after `assign`, ValueError for an empty name.
        """
        self._require_open()
        if self._group_id is None:
            raise RuntimeError("subscribe needs the setting group.id; without a group, use assign")
        if (topics is None) == (pattern is None):
            raise ValueError("give either topics or a pattern")
        if listener is not None:
            checked_listener(listener)
        if topics is not None:
            self._subscription.subscribe(topics)
            self._cluster.set_topics(self._subscription.topics)
        else:
            assert pattern is not None
            self._subscription.subscribe_pattern(pattern)
            self._cluster.want_all_topics()
        self._coordinator.listener = listener or RebalanceListener()
        self._coordinator.request_rejoin("the subscription was changed")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group deciding; those that were assigned before keep their positions."""
        self._require_reading()
        self._subscription.assign(partitions)
        self._cluster.set_topics(
            topic_partition.topic for topic_partition in self._subscription.partitions
        )
        self._fetcher.wake()

    @until_closed
    async def unsubscribe(self) -> None:
        """Read nothing; leave the group, then raise what the listener raised. `close` includes it: no effect there."""
        self._require_open()
        if self._is_closing:
            return
        if self._subscription.uses_group:
            await self._commit_before_revoke()
            try:
                await self._coordinator.leave("the consumer unsubscribed")
            except Exception:  # the listener's own: the group was left
                self._forget_subscription()
                raise
        self._forget_subscription()

    def _forget_subscription(self) -> None:
        self.iteration.discard()
        self._subscription.clear()

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned now."""
        return list(self._subscription.partitions)

    def subscription(self) -> list[str]:
        """Return the topics subscribed to; of a pattern, those that match."""
        return list(self._subscription.topics)

    # Reading

    async def poll(
        self, timeout_ms: int = 1000, max_records: int | None = None
    ) -> list[FetchedBatches]:
        """Return what is fetched, at most `max_records` (`max.poll.records`), waiting up to `timeout_ms` for some.

        Raise AuthenticationFailed where a broker refuses the credential, and KafkaError for what needs a decision:
        no valid offset and no reset policy, no permission, an invalid topic name, corrupt data, a group that refuses
        this member. Raise RuntimeError where neither topics nor partitions were chosen.
        """
        self._require_loop()
        self._require_reading()
        if max_records is not None:
            arguments.number("max_records", max_records, least=1)
        self._subscription.require_something()
        self._seeker.leave_iteration()
        timeout_s = arguments.timeout(timeout_ms) / 1000
        return await self._poll(timeout_s, max_records or self._max_poll_records)

    @property
    def commits_by_itself(self) -> bool:
        """Return whether positions are committed in the background."""
        return self._commits

    @property
    def resets_to(self) -> str:
        """Return `auto.offset.reset`: where a position goes that is not in the log."""
        return self._config.text("auto.offset.reset")

    @property
    def reads_committed(self) -> bool:
        """Return whether records of open and aborted transactions are hidden."""
        return self._fetch_settings.read_committed

    async def _poll(self, timeout_s: float, max_records: int) -> list[FetchedBatches]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        self._counts.polling()
        if self._fetcher.holds_up_responses:  # a loop of polls would keep it in the socket
            with self._polls.until_closed():
                await asyncio.sleep(0)
        while True:
            self._cluster.raise_authentication_failure()
            refusal = self._cluster.metadata.take_error(self._subscription.reads)
            if refusal is not None:
                raise refusal
            if self._subscription.uses_group and not self._coordinator.is_settled():
                with self._polls.until_closed():
                    await self._coordinator.ensure_active(deadline)
                if self._is_closing:  # by a listener
                    raise self._calls.closed_error()
            await self._positions.update(loop.time())  # other partitions need not wait for a lookup
            if self._auto_commit is not None:
                self._auto_commit.poll(loop.time())
            taken = self._fetcher.drain(max_records)
            if taken:
                for batches in taken:
                    batches.go_back = self._seeker.go_back_one
                self._counts.polled()
                return self._interceptors.on_consume(taken)
            wait_s = deadline - loop.time()
            if wait_s <= 0:
                self._counts.polled()
                return []
            with self._polls.until_closed():
                await self._fetcher.wait(min(wait_s, _MAX_WAIT_S))

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records without end."""
        return self.iteration

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord]:
        """Return the next record. Raise what `poll` raises, and RecordDeserializationError."""
        return self.iteration.__anext__()

    async def _poll_for_iteration(self) -> list[FetchedBatches]:
        self._require_loop()
        self._require_reading()
        self._subscription.require_something()
        return await self._poll(_MAX_WAIT_S, self._max_poll_records)

    # Positions

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read on at an offset. Raise ValueError when the partition is not assigned or the offset negative."""
        self._seeker.seek(topic_partition, offset)

    def go_back(
        self, offsets: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Seek partitions that are still at their position: no seek, revocation or read came between."""
        self._seeker.go_back(offsets, positions)

    def rewind(self, batches: Sequence[FetchedBatches]) -> None:
        """Read the batches of one poll again, those whose partitions have not been moved or taken away since."""
        self._seeker.rewind(batches)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first record; without `partitions`, of all assigned ones."""
        self._seeker.reset(partitions, ResetPolicy.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record; without `partitions`, of all assigned ones."""
        self._seeker.reset(partitions, ResetPolicy.LATEST)

    @until_closed
    async def seek_to_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> None:
        """Read on at the first record that is not older than the time; without one, at the end."""
        found = await self.offsets_for_times(timestamps_ms)
        for topic_partition, result in found.items():
            if result is None:
                self._seeker.reset([topic_partition], ResetPolicy.LATEST)
            else:
                self.seek(topic_partition, result.offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until `resume`; they stay assigned."""
        for topic_partition in partitions_of(partitions):
            self._state(topic_partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        for topic_partition in partitions_of(partitions):
            self._state(topic_partition).is_paused = False
        self._fetcher.wake()
        self._fetcher.notify()

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return self._subscription.paused()

    @until_closed
    async def position(self, topic_partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record, looking it up if need be. Raise TimeoutError."""
        self._require_open()
        limit_ms = self._limit_ms(timeout_ms)
        return await self._consumed.position(partition_of(topic_partition), limit_ms)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end, as of the last fetch; None before one."""
        self._require_open()
        return self._consumed.lag(partition_of(topic_partition))

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return self._api_timeout_ms if timeout_ms is None else arguments.timeout(timeout_ms)

    def _state(self, topic_partition: TopicPartition) -> PartitionState:
        self._require_open()
        return self._subscription.state(topic_partition)

    # Offsets of the log

    @until_closed
    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. Raise KafkaError, TimeoutError."""
        self._require_open()
        return await self._log_offsets.first(partitions, timeout_ms)

    @until_closed
    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last visible record of each partition. Raise KafkaError, TimeoutError."""
        self._require_open()
        return await self._log_offsets.end(partitions, timeout_ms)

    @until_closed
    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is not older than the time, None where there is none."""
        self._require_open()
        return await self._log_offsets.at_times(timestamps_ms, timeout_ms)

    @until_closed
    async def partitions_for(
        self, topic: str, timeout_ms: int | None = None
    ) -> list[TopicPartition]:
        """Return the partitions of a topic. Raise TimeoutError when it does not exist."""
        self._require_open()
        limit_ms = self._limit_ms(timeout_ms)
        metadata = await self._cluster.topic(topic, limit_ms)
        return [TopicPartition(topic, part.partition) for part in metadata.partitions]

    # Commits

    @until_closed
    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets, without any all positions, and wait for the response.

        Raise KafkaError (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS: the group has moved on;
        poll and read what comes), TimeoutError, RuntimeError without `group.id`.
        """
        self._require_group()
        chosen = self._consumed.offsets() if offsets is None else as_offsets(offsets)
        states = self._subscription.partitions  # those of now: they may be taken away meanwhile
        limit_ms = self._limit_ms(timeout_ms)
        await self._offsets.commit(chosen, limit_ms)
        for topic_partition, committed in chosen.items():
            if topic_partition in states:
                states[topic_partition].last_committed = committed
        self._interceptors.on_commit(chosen)

    def commit_soon(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Task[None]:
        """Commit in the background; the task fails as `commit` would."""
        self._require_group()
        chosen = self._consumed.offsets() if offsets is None else as_offsets(offsets)
        return asyncio.get_running_loop().create_task(self.commit(chosen))

    @until_closed
    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None where there is none. Raise KafkaError, TimeoutError."""
        self._require_group()
        wanted = partitions_of(partitions)
        limit_ms = self._limit_ms(timeout_ms)
        found = await self._offsets.fetch(wanted, limit_ms)
        return {topic_partition: found.get(topic_partition) for topic_partition in wanted}

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's id and generation in its group, for `Producer.send_offsets_to_transaction`.

        A member that the group has gone on without is refused by it, and the transaction with it. Raise
        RuntimeError without `group.id`, KafkaError REBALANCE_IN_PROGRESS before the group was joined.
        """
        self._require_group()
        return self._coordinator.member.metadata()

    async def _commit_before_revoke(self) -> None:
        if self._auto_commit is not None:
            await self._auto_commit.commit_all()

    def _require_group(self) -> None:
        self._require_open()
        if self._group_id is None:
            raise RuntimeError("committed offsets need the setting group.id")
