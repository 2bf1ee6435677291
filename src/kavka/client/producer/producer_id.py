"""The producer id of an idempotent producer without transactions (KIP-98)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.client.cluster import Cluster
from kavka.client.producer.sequences import SequenceNumbers
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import ProducerEpoch, ProducerId
from kavka.wire.codec import CorruptFrame
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

_NO_RIGHT = "A producer needs Write on a topic (or IdempotentWrite on the cluster, or enable.idempotence=false)"


class ProducerIdInitializer:
    """Asks any broker for a producer id until there is one, and starts the sequence numbers with it."""

    def __init__(
        self,
        cluster: Cluster,
        sequences: SequenceNumbers,
        timeout_ms: int,
        *,
        on_refused: Callable[[Exception], None],
        on_retry: Callable[[], None],
        on_done: Callable[[], None],
    ) -> None:
        """`on_refused` is called with what no retry helps against, `on_retry` before each retry."""
        self._cluster = cluster
        self._sequences = sequences
        self._timeout_ms = timeout_ms
        self._on_refused = on_refused
        self._on_retry = on_retry
        self._on_done = on_done
        self._task: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the task that runs, if one does: the close of the producer cancels it."""
        return [] if self._task is None else [self._task]

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        attempt = 0
        try:
            while not self._sequences.has_producer:
                try:
                    response = await self._request()
                except (OSError, KafkaError, CorruptFrame) as error:
                    if isinstance(error, KafkaError) and not error.retriable:
                        self._on_refused(error)
                        return
                    self._cluster.outage_warnings.warn(log, "no producer id yet", error)
                    await self._cluster.back_off(attempt)
                    attempt += 1
                    self._on_retry()
                else:
                    producer_id = ProducerId(response.producer_id)
                    self._sequences.restart_with_producer(
                        producer_id, ProducerEpoch(response.producer_epoch)
                    )
        finally:
            self._task = None
        self._on_done()

    async def _request(self) -> InitProducerIdResponse:
        peer = await self._cluster.any_peer()
        request = InitProducerIdRequest(transaction_timeout_ms=2**31 - 1)
        response: InitProducerIdResponse = await peer.send(request, timeout_ms=self._timeout_ms)
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise KafkaError(code, f"{code.message} {_NO_RIGHT}")
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        return response
