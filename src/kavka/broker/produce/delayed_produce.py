"""Waiting until what was appended with acks=all is on all replicas in sync: for producers, and for markers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kavka.broker.partitions.replica import AppendOutcome, Replica
from kavka.broker.requests.deferred import DeferredResponse
from kavka.broker.requests.purgatory import Purgatory
from kavka.errors import ErrorCode
from kavka.ids import LeaderEpoch, TopicPartition


class Append(NamedTuple):
    """A batch that was appended without error."""

    replica: Replica
    outcome: AppendOutcome

    def acknowledgement(self) -> ErrorCode | None:
        """Return whether the replicas in sync have it, or why they never will; None while that is open."""
        replica, outcome = self
        code = replica.partition.acknowledged(outcome.end_offset, LeaderEpoch(outcome.leader_epoch))
        if code is None and replica.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR  # no follower fetches it from here any more
        return code


async def wait_until_written(appends: Sequence[Append]) -> list[ErrorCode]:
    """Wait until the batches are in the page cache; KAFKA_STORAGE_ERROR for those that never will be."""
    codes = []
    for append in appends:
        code = ErrorCode.NONE
        if append.outcome.written is not None:
            try:
                await asyncio.shield(append.outcome.written)
            except OSError:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        codes.append(code)
    return codes


async def wait_until_replicated(
    purgatory: Purgatory, appends: Sequence[Append], timeout_ms: int
) -> list[ErrorCode]:
    """Wait until each batch is acknowledged or its leader has resigned, or the time is over."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: DeferredResponse) -> None:
        if not woken.done():
            woken.set_result(None)

    delayed = DelayedProduce(purgatory, appends, timeout_ms, list)
    delayed.call_on_wake(wake)
    try:
        await woken
    except BaseException:
        delayed.cancel()
        raise
    codes: list[ErrorCode] = delayed.take()
    return codes


class DelayedProduce(DeferredResponse):
    """Waits until every batch is acknowledged or cannot be; a `purgatory.DelayedOperation`.

    What became of a batch is settled once: a producer asks for replicas in sync at that moment, and not at the one
    at which the last batch of its request is done.
    """

    __slots__ = ("_appends", "_codes", "_purgatory", "_respond", "_ticket")

    def __init__(
        self,
        purgatory: Purgatory,
        appends: Sequence[Append],
        timeout_ms: int,
        respond: Callable[[list[ErrorCode]], Any],
    ) -> None:
        """Begin to wait; `respond` makes the result of what became of each batch."""
        super().__init__()
        self._purgatory = purgatory
        self._appends = appends
        self._codes: list[ErrorCode | None] = [None] * len(appends)
        self._respond = respond
        self._ticket = None
        if self.is_complete():  # the disk has failed under a later batch of the request
            self.wake()
        else:
            self._ticket = purgatory.wait(self._keys(), timeout_ms, self)

    def _keys(self) -> list[TopicPartition]:
        """Return the partitions of what is not settled; their high watermarks may settle it."""
        return [
            append.replica.topic_partition
            for append, code in zip(self._appends, self._codes, strict=True)
            if code is None
        ]

    def is_complete(self) -> bool:
        """Return whether all are settled."""
        codes = self._codes
        is_complete = True
        for index, code in enumerate(codes):
            if code is None:
                codes[index] = found = self._appends[index].acknowledgement()
                if found is None:
                    is_complete = False
        return is_complete

    def build(self) -> Any:
        """Return the response, with REQUEST_TIMED_OUT for batches that still wait."""
        self.is_complete()
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return self._respond([timed_out if code is None else code for code in self._codes])

    def release(self) -> None:
        """Leave the purgatory."""
        if self._ticket is not None:
            self._purgatory.cancel(self._ticket)
