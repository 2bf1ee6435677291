"""The way out of a client's connection: held back while the network is slow or silent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from kavka.io import Buffer, FileRange, Sendable

_PIECE_BYTES = 16 * 1024


class Pace(Protocol):
    """The speed of the network now."""

    @property
    def is_silent(self) -> bool:
        """Return whether nothing gets through."""
        ...

    @property
    def is_paced(self) -> bool:
        """Return whether latency or a limit is set."""
        ...

    @property
    def latency_s(self) -> float:
        """Return the seconds by which each byte is late."""
        ...

    @property
    def bytes_per_s(self) -> float:
        """Return the limit; 0 for none."""
        ...


class PacedOutput:
    """The transport that the broker writes to, before that of the socket."""

    def __init__(self, transport: Any, pace: Pace) -> None:
        """Send to `transport`, at the pace that is set when something is written."""
        self.breaks_at_response = False
        """The next response is lost with the connection."""
        self._transport = transport
        self._pace = pace
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False

    def write(self, data: Buffer) -> None:
        """Queue bytes."""
        self.writelines([data])

    def writelines(self, parts: Sequence[Sendable]) -> None:
        """Queue a response, or lose it."""
        if self.breaks_at_response:
            for part in parts:
                if not isinstance(part, bytes | bytearray | memoryview):
                    part.release()
            self._transport.abort()
        elif self._waiting or self._pace.is_silent or self._pace.is_paced:
            self._hold(b"".join(map(_bytes_of, parts)))
        else:
            self._transport.writelines(parts)

    def _hold(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now + self._pace.latency_s)
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            if self._pace.bytes_per_s:
                self._due += len(piece) / self._pace.bytes_per_s
            self._waiting.append((self._due, piece))
        self._waiting_bytes += len(data)
        self.send_due()

    def send_due(self) -> None:
        """Send what is due."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and not self._pace.is_silent:
            due, piece = self._waiting[0]
            if due > loop.time() and self._pace.is_paced:
                self._timer = loop.call_at(due, self.send_due)
                return
            self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._transport.write(piece)
        if self._is_closing and not self._waiting:
            self._transport.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait, here and in the transport."""
        return self._waiting_bytes + int(self._transport.get_write_buffer_size())

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._is_closing or bool(self._transport.is_closing())

    def close(self) -> None:
        """Close when all that waits is sent."""
        self._is_closing = True
        if not self._waiting:
            self._transport.close()

    def drop(self) -> None:
        """Forget what waits: the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._waiting_bytes = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)


def _bytes_of(part: Sendable) -> bytes:
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    return _read(part)


def _read(part: FileRange) -> bytes:
    try:
        return part.file.read_at(part.length, part.position)
    finally:
        part.release()
