"""Waiting until what was appended with acks=all is on all replicas in sync: for producers, and for markers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kavka.broker.purgatory import Purgatory
from kavka.broker.replica import AppendOutcome, Replica
from kavka.errors import ErrorCode
from kavka.ids import LeaderEpoch, TopicPartition

Append = tuple[Replica, AppendOutcome]
"""A batch that was appended without error."""


async def wait_until_written(appends: Sequence[Append]) -> list[ErrorCode]:
    """Wait until the batches are in the page cache; KAFKA_STORAGE_ERROR for those that never will be."""
    codes = []
    for _replica, outcome in appends:
        code = ErrorCode.NONE
        if outcome.written is not None:
            try:
                await asyncio.shield(outcome.written)
            except OSError:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        codes.append(code)
    return codes


async def wait_until_replicated(
    purgatory: Purgatory, appends: Sequence[Append], timeout_ms: int
) -> list[ErrorCode]:
    """Wait until all batches are acknowledged, or their leaders are none any more, or the time is over."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    wait = DelayedProduce(appends, finish)
    if not wait.is_complete():
        purgatory.wait(wait.keys(), timeout_ms, wait)
        await done
    return wait.codes()


class DelayedProduce:
    """Waits until every batch is acknowledged or cannot be; implements `purgatory.DelayedOperation`.

    What became of a batch is settled once: a producer asks for replicas in sync at that moment, and not at the one
    at which the last batch of its request is done.
    """

    __slots__ = ("_appends", "_codes", "complete")

    def __init__(self, appends: Sequence[Append], finish: Callable[[], None]) -> None:
        """`finish` is called when all are settled, or the time is over."""
        self._appends = appends
        self._codes: list[ErrorCode | None] = [None] * len(appends)
        self.complete = finish

    def keys(self) -> list[TopicPartition]:
        """Return the partitions of what is not known to be settled; their high watermarks may settle it."""
        return [
            replica.topic_partition
            for (replica, _), code in zip(self._appends, self._codes, strict=True)
            if code is None
        ]

    def is_complete(self) -> bool:
        """Return whether all are settled."""
        codes = self._codes
        is_complete = True
        for index, code in enumerate(codes):
            if code is None:
                codes[index] = found = _outcome_of(self._appends[index])
                if found is None:
                    is_complete = False
        return is_complete

    def codes(self) -> list[ErrorCode]:
        """Return what became of each batch; REQUEST_TIMED_OUT of those that wait still."""
        self.is_complete()
        return [ErrorCode.REQUEST_TIMED_OUT if code is None else code for code in self._codes]


def _outcome_of(append: Append) -> ErrorCode | None:
    replica, outcome = append
    code = replica.partition.acknowledged(outcome.end_offset, LeaderEpoch(outcome.leader_epoch))
    if code is None and replica.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR  # nobody will replicate it from here any more
    return code
