"""A fetcher's requests to its leader besides Fetch: where epochs end, where the leader's log begins and ends.

A partition needs them before it can fetch records: when it begins with an older leader, or its offset is out of range.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.broker.replication.follower_log import Work
from kavka.broker.replication.leader_endpoint_messages import (
    Deliver,
    epoch_ends,
    epochs_request,
    offsets,
    offsets_request,
)
from kavka.broker.replication.leader_fetches import LeaderFetches
from kavka.broker.replication.partition_fetch_state import PartitionFetchState
from kavka.broker.replication.partition_steps import PartitionSteps
from kavka.core.follower import FetchEpochEndOffset, FetchOffset
from kavka.ids import TopicPartition
from kavka.net.peer import Peer

Q = TypeVar("Q", FetchEpochEndOffset, FetchOffset)


class LeaderEndpoint:
    """Sends what the machines of the due partitions ask for, and has their steps done."""

    def __init__(
        self,
        context: FetcherContext,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        due: Iterable[TopicPartition],
        fetches: LeaderFetches,
        steps: PartitionSteps,
    ) -> None:
        """Take the fetcher's partitions, and those of them that are due; both change meanwhile."""
        self._context = context
        self._partitions = partitions
        self._due = due
        self._fetches = fetches
        self._steps = steps

    async def send(self, peer: Peer) -> None:
        """Ask for the ends of epochs and of logs, where those are wanted before records; each as often as needed."""
        for topic_partition in list(self._due):
            fresh = self._partitions.get(topic_partition)
            if fresh is not None and not fresh.has_started:
                fresh.has_started = True
                step = fresh.machine.first_step()
                if step is not None:
                    await self._steps.perform(fresh, step)
        while True:
            now_ms = self._context.clock.tick_ms()
            epochs: dict[TopicPartition, FetchEpochEndOffset] = {}
            ends: dict[TopicPartition, FetchOffset] = {}
            for topic_partition in list(self._due):
                followed = self._partitions.get(topic_partition)
                request = None if followed is None else followed.machine.next_request(now_ms)
                if isinstance(request, FetchEpochEndOffset):
                    epochs[topic_partition] = request
                elif isinstance(request, FetchOffset):
                    ends[topic_partition] = request
            if not epochs and not ends:
                return
            for topic_partition in (*epochs, *ends):
                self._fetches.session.drop(self._fetches.key(self._partitions[topic_partition]))
            broker_id = self._context.broker_id
            if epochs:
                await self._send_one(peer, epochs, epochs_request(broker_id, epochs), epoch_ends)
            if ends:
                await self._send_one(peer, ends, offsets_request(broker_id, ends), offsets)

    async def _send_one(
        self,
        peer: Peer,
        asked: dict[TopicPartition, Q],
        request: object,
        results: Callable[
            [Mapping[TopicPartition, Q], Any], Iterator[tuple[TopicPartition, Deliver]]
        ],
    ) -> None:
        """Send one request for all partitions of `asked`, and carry out the steps that its response leads to."""
        response = await peer.send(request, timeout_ms=self._context.timeout_ms)
        now_ms = self._context.clock.tick_ms()
        missing = dict(asked)
        steps: list[Work] = []
        for topic_partition, deliver in results(asked, response):
            followed = self._partitions.get(topic_partition)
            if followed is None or not followed.log.is_current:
                continue
            if missing.pop(topic_partition, None) is None:
                continue  # the response has the partition twice
            step = deliver(followed.machine, now_ms)
            if step is not None:
                steps.append(partial(self._steps.perform, followed, step))
        for topic_partition in missing:
            # A leader that leaves a partition out of its response is asked again, not at once.
            followed = self._partitions.get(topic_partition)
            if followed is not None:
                followed.machine.delay(now_ms)
        await asyncio.gather(*(step() for step in steps))
