"""Creation of the directories of new logs, in batches.

Requests that arrive while a batch is created go into the next one.

Nothing is synced here, which would cost milliseconds for each: a new log counts as soon as records in it are flushed,
and the first flush makes its names durable, too. What a host crash leaves before is nothing, or an empty log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kavka.ids import TopicId
from kavka.io import Disk, File
from kavka.storage.checkpoint.partition_metadata import (
    PARTITION_METADATA,
    encode_partition_metadata,
)

_MAX_AT_ONCE = 64


class NewLog(NamedTuple):
    """A directory that may have to be made, with an empty log file and the topic's id in it."""

    path: str
    log_name: str
    topic_id: TopicId | None


class LogCreation:
    """Makes the new logs of one log directory."""

    def __init__(self, disk: Disk) -> None:
        """Make them on `disk`."""
        self._disk = disk
        self._waiting: list[tuple[NewLog, asyncio.Future[File | None]]] = []
        self._making: asyncio.Task[None] | None = None

    async def make(self, new: NewLog) -> File | None:
        """Make the directory and return its open log file; None when it is there already. Raise OSError."""
        future: asyncio.Future[File | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((new, future))
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make_all())
        return await future

    async def wait_for_tasks(self) -> None:
        """Return when no directory is being created, also of requests that were cancelled."""
        while self._making is not None:
            await asyncio.wait([self._making])

    async def _make_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = (
                    self._waiting[:_MAX_AT_ONCE],
                    self._waiting[_MAX_AT_ONCE:],
                )
                await self._make_batch(batch)
        finally:
            self._making = None

    async def _make_batch(
        self, batch: Sequence[tuple[NewLog, asyncio.Future[File | None]]]
    ) -> None:
        wanted = [new for new, _ in batch]
        try:
            made = await self._disk.run(_make, self._disk, wanted)
        except OSError as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for file, (_, future) in zip(made, batch, strict=True):
            if not future.done():
                future.set_result(file)
            elif file is not None:
                file.close()


def _make(disk: Disk, wanted: Sequence[NewLog]) -> list[File | None]:
    """Make those that are not there; return their log files. It blocks."""
    return [None if disk.exists(new.path) else _make_one(disk, new) for new in wanted]


def _make_one(disk: Disk, new: NewLog) -> File:
    disk.make_directories(new.path)
    if new.topic_id is not None:
        metadata = disk.open(f"{new.path}/{PARTITION_METADATA}", create=True)
        try:
            metadata.write_at(encode_partition_metadata(new.topic_id), 0)
        finally:
            metadata.close()
    return disk.open(f"{new.path}/{new.log_name}", create=True)
