"""Waiting until what was appended with acks=all is on all replicas in sync: for producers, and for markers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.broker.purgatory import Purgatory
from kavka.broker.replica import AppendOutcome, Replica
from kavka.errors import ErrorCode
from kavka.ids import LeaderEpoch

Append = tuple[Replica, AppendOutcome]
"""A batch that was appended without error."""


async def written(appends: Sequence[Append]) -> list[ErrorCode]:
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


async def replicated(
    purgatory: Purgatory, appends: Sequence[Append], timeout_ms: int
) -> list[ErrorCode]:
    """Wait until all batches are acknowledged, or their leaders are none any more, or the time is over."""
    wait = _Wait(appends)
    if not wait.is_complete():
        purgatory.wait([replica.where for replica, _ in appends], timeout_ms, wait)
        await wait.done
    return wait.codes()


class _Wait:
    """Waits until every batch is acknowledged or cannot be."""

    __slots__ = ("_appends", "done")

    def __init__(self, appends: Sequence[Append]) -> None:
        self._appends = appends
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_complete(self) -> bool:
        return all(_judge(append) is not None for append in self._appends)

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def codes(self) -> list[ErrorCode]:
        codes = [_judge(append) for append in self._appends]
        return [ErrorCode.REQUEST_TIMED_OUT if code is None else code for code in codes]


def _judge(append: Append) -> ErrorCode | None:
    replica, outcome = append
    code = replica.partition.acknowledged(outcome.end_offset, LeaderEpoch(outcome.leader_epoch))
    if code is None and replica.log.directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR  # nobody will replicate it from here any more
    return code
