"""The requests of transactions on the connections to their coordinators."""

from __future__ import annotations

import asyncio
import logging

from kavka.client.cluster import Cluster, CoordinatorKind
from kavka.client.connections import backoff_ms
from kavka.client.coordinator import Coordinator
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.transaction_requests import Identity, TransactionSettings, result_of
from kavka.core.transactional_producer import steps

log = logging.getLogger(__name__)

_CONCURRENT_BACKOFF_MS = 20
"""First wait while the last transaction is being completed, which is soon over."""


class TransactionChannel:
    """The coordinator of the transactional id, and those of the groups whose offsets take part."""

    def __init__(
        self, cluster: Cluster, settings: TransactionSettings, sequences: SequenceNumbers
    ) -> None:
        """Begin without coordinators; `send` finds them. Requests have the producer id and epoch of `sequences`."""
        self._cluster = cluster
        self._settings = settings
        self._sequences = sequences
        self._coordinator = Coordinator(
            cluster, CoordinatorKind.TRANSACTION, settings.transactional_id
        )
        self._groups: dict[str, Coordinator] = {}

    @property
    def transactional_id(self) -> str:
        """The transactional id of the producer."""
        return self._settings.transactional_id

    async def send(self, request: steps.Request) -> steps.RequestResult:
        """Send a request, and return its response. Raise KafkaError, OSError, CorruptFrame."""
        identity = Identity(self._settings, self._sequences.producer_id, self._sequences.epoch)
        peer = await self._coordinator_of(request).peer()
        message, version = identity.encode(request, peer)
        response = await peer.send(message, version, timeout_ms=self._cluster.request_timeout_ms)
        return result_of(request, response)

    def _coordinator_of(self, request: steps.Request) -> Coordinator:
        if not isinstance(request, steps.CommitOffsets):
            return self._coordinator
        group_id = request.group.group_id
        coordinator = self._groups.get(group_id)
        if coordinator is None:
            coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
            self._groups[group_id] = coordinator
        return coordinator

    async def back_off(self, step: steps.BackOff) -> None:
        """Sleep before a request is sent again."""
        if step.forgets_coordinator:
            self._coordinator_of(step.request).forget()
        log.info(
            "%s repeated attempt=%d reason=%s",
            step.request.stage.value,
            step.attempt,
            step.reason,
        )
        if not step.is_short:
            await self._cluster.back_off(step.attempt)
            return
        longest_ms = max(self._settings.retry_backoff_ms, _CONCURRENT_BACKOFF_MS)
        random = self._cluster.random.random()
        wait_ms = backoff_ms(step.attempt, _CONCURRENT_BACKOFF_MS, longest_ms, random)
        await asyncio.sleep(wait_ms / 1000)
