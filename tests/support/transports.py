"""A protocol over a transport under test, and a range of a file that it may send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kavka.storage.disk.os_disk import OsDisk


class Range:
    """A range of a file that notes its release."""

    def __init__(self, path: Path, position: int, length: int) -> None:
        self.file = OsDisk().open(str(path))
        self.position = position
        self.length = length
        self.released = 0

    def release(self) -> None:
        self.released += 1
        self.file.close()


class RecordingProtocol:
    """Records what comes, and how its transport pauses it."""

    def __init__(self, size: int = 65536) -> None:
        self.buffer = bytearray(size)
        self.received = bytearray()
        self.more = asyncio.Event()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.pauses: list[str] = []
        self.pauses_after: int | None = None
        self.mistake: Exception | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    async def until_received(self, length: int) -> None:
        """Return when so many bytes have come."""
        while len(self.received) < length:
            self.more.clear()
            await self.more.wait()

    def buffer_updated(self, nbytes: int) -> None:
        if self.mistake is not None:
            raise self.mistake
        self.received += self.buffer[:nbytes]
        self.more.set()
        if self.pauses_after is not None and len(self.received) >= self.pauses_after:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.pauses.append("pause")

    def resume_writing(self) -> None:
        self.pauses.append("resume")
