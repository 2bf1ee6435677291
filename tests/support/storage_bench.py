"""Small logs on a real directory: batches of a given size, a clock that tests turn, an open log."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kavka.ids import TopicPartition
from kavka.io import Buffer
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.log.log import Appended, Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.header import (
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    batch_crc,
    encode_header,
    read_header,
    walk,
)
from support.cold_files import ProbedFile

TP = TopicPartition("events", 0)


class TurnedClock:
    """A clock that stands still until a test turns it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    def tick_ms(self) -> int:
        return self.now

    def work_ns(self) -> int:
        return self.tick_ms() * 1_000_000


class SeededChance:
    """Reproducible chance."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def random(self) -> float:
        return self._random.random()

    def random_bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)


def make_batch(
    base_offset: int,
    count: int = 1,
    *,
    size: int = 100,
    timestamp: int = 1_700_000_000_000,
    epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    body: bytes | None = None,
) -> bytes:
    """Return a sound batch of `count` offsets in `size` bytes; its records are opaque bytes."""
    records = (
        (base_offset * 31 + count).to_bytes(8, "big") * (size // 8 + 1) if body is None else body
    )
    records = records[: max(size - HEADER_SIZE, 0)] if body is None else records
    length = HEADER_SIZE + len(records) - LENGTH_END
    header = BatchHeader(
        0, base_offset, length, length + LENGTH_END, epoch, 2, 0, attributes, count - 1,
        timestamp, timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    batch = encode_header(header) + records
    return encode_header(header._replace(crc=batch_crc(batch, read_header(batch)))) + records


class LogBench:
    """A directory with one log in it, and what tests do to it."""

    def __init__(self, path: Path, disk: OsDisk | None = None) -> None:
        self.path = path
        self.disk = disk or OsDisk(threads=2)
        self.clock = TurnedClock()
        self.chance = SeededChance()
        self.directory = self.new_directory()

    def new_directory(self) -> LogDirectory:
        return LogDirectory(self.disk, self.clock, self.chance, str(self.path))

    async def open(self, config: LogConfig | None = None, **known: Any) -> Log:
        """Open the log as after a kill, unless `is_clean=True`."""
        return await Log.open(self.directory, TP, config or LogConfig(), **known)

    @asynccontextmanager
    async def log(self, config: LogConfig | None = None, **known: Any) -> AsyncIterator[Log]:
        log = await self.open(config, **known)
        yield log
        await self.directory.wait_for_tasks()
        await log.close()

    async def crash(self, log: Log) -> None:
        """Forget the log as a killed process would: what was not written is gone, nothing is finished."""
        await self.directory.wait_for_tasks()
        for segment in log.segments:
            segment.close()
        self.directory = self.new_directory()

    @property
    def log_path(self) -> Path:
        return self.path / str(TP)

    def close(self) -> None:
        self.disk.close()


def add(log: Log, count: int = 1, **facts: Any) -> Appended:
    """Append one batch at the end of the log."""
    batch = make_batch(log.log_end_offset, count, **facts)
    return log.append(batch, walk(batch))


def read_bytes(log: Log, offset: int, max_bytes: int = 1 << 20, **how: Any) -> bytes:
    """Return the bytes that a read finds."""
    end_offset = how.pop("end_offset", log.log_end_offset)
    found = log.read(
        offset, max_bytes, end_offset, how.pop("minimum_one", True), may_block=True, **how
    ).range
    if found is None:
        return b""
    try:
        return found.file.read_at(found.length, found.position)
    finally:
        found.release()


def read_offsets(log: Log) -> list[tuple[int, int]]:
    """Return (base offset, last offset) of every batch that can be read, from start to end."""
    found: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while data := read_bytes(log, offset, 1 << 30):
        for header in walk(data):
            found.append((header.base_offset, header.last_offset))
            offset = header.last_offset + 1
    return found


class BadDisk(OsDisk):
    """The real disk, until a test says otherwise; only paths that end with one of `suffixes` are bad."""

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.suffixes: tuple[str, ...] = (".log",)
        self.write_error: OSError | None = None
        self.sync_error: OSError | None = None
        self.syncs: list[str] = []
        self.is_cold = False
        self.pooled: list[str] = []

    def open(self, path: str, *, create: bool = False, private: bool = False) -> BadFile:
        fd = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
        return BadFile(fd, path, self)

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.pooled.append(getattr(work, "__name__", "partial"))
        return await super().run(work, *args)


class BadFile(ProbedFile):
    """A file of `BadDisk`."""

    def __init__(self, fd: int, path: str, disk: BadDisk) -> None:
        super().__init__(fd)
        self._path = path
        self._disk = disk

    def write_at(self, data: Buffer, position: int) -> None:
        error = self._disk.write_error
        if error is not None and self._path.endswith(self._disk.suffixes):
            super().write_at(memoryview(data)[: len(data) // 2], position)
            raise error
        super().write_at(data, position)

    def sync(self) -> None:
        error = self._disk.sync_error
        if error is not None and self._path.endswith(self._disk.suffixes):
            raise error
        self._disk.syncs.append(self._path.rpartition("/")[2])
        super().sync()

    def is_cached(self, length: int, position: int) -> bool:
        return not self._disk.is_cold


class RenamingDisk(OsDisk):
    """The real disk, which calls `renamed` after a rename in the pool, before the loop continues."""

    def __init__(self) -> None:
        super().__init__(threads=2)
        self.renamed: Callable[[], Awaitable[None]] | None = None

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        result = await super().run(work, *args)
        if work == self.rename and self.renamed is not None:
            await self.renamed()
        return result
