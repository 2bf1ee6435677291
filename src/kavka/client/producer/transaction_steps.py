"""The steps of a producer's transactional dialogues: requests, waits, the use of a producer id."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.transaction_channel import TransactionChannel
from kavka.core.transactional_producer import steps
from kavka.ids import ProducerEpoch, ProducerId

log = logging.getLogger(__name__)


class ProducerCalls(NamedTuple):
    """Functions of the producer that its transactions call."""

    close_batches: Callable[[], None]
    """Let no open batch take more records."""
    wait_until_written: Callable[[], Awaitable[None]]
    """Wait until every record is written or has failed."""
    drop_unsent: Callable[[Exception], Awaitable[None]]
    """Fail the records that are not on the wire."""
    wait_until_idle: Callable[[], Awaitable[None]]
    """Wait until no request is on the wire."""


class TransactionSteps:
    """Performs what the dialogues of `kavka.core.transactional_producer` ask for."""

    def __init__(
        self,
        channel: TransactionChannel,
        sequences: SequenceNumbers,
        calls: ProducerCalls,
        wait_until_added: Callable[[], Awaitable[None]],
    ) -> None:
        """`wait_until_added` waits until nothing is being added to the transaction."""
        self._channel = channel
        self._sequences = sequences
        self._calls = calls
        self._wait_until_added = wait_until_added

    async def perform(self, step: steps.Step) -> steps.RequestResult | None:
        """Perform a step, and return the response to a request. Raise KafkaError, OSError, CorruptFrame."""
        match step:
            case steps.Send(request):
                return await self._channel.send(request)
            case steps.BackOff():
                await self._channel.back_off(step)
            case steps.UseProducerId():
                self._use(step)
            case steps.DropUnsent(error):
                await self._calls.drop_unsent(error)
            case steps.WaitUntilWritten():
                await self._calls.wait_until_written()
            case steps.WaitUntilAdded():
                await self._wait_until_added()
            case steps.WaitUntilIdle():
                await self._calls.wait_until_idle()
        return None

    def _use(self, step: steps.UseProducerId) -> None:
        producer_id, epoch = ProducerId(step.producer_id), ProducerEpoch(step.epoch)
        self._sequences.restart_all(producer_id, epoch)
        if not step.is_of_end:
            log.info(
                "transactional producer has its id id=%s producer_id=%d epoch=%d",
                self._channel.transactional_id,
                producer_id,
                epoch,
            )
