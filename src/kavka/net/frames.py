"""Split received bytes into size-delimited frames: pure, used by both sides of a connection.

    reader = FrameReader(on_frame, max_bytes)         on_frame(frame: memoryview) -> None
    reader.get_buffer(sizehint)                       the two methods of `io.BufferedProtocol`:
    reader.buffer_updated(nbytes)                     delegate them to the reader

A frame is passed on without its four bytes of size, as a *writable* `memoryview` over memory of its own, which the
reader does not use afterwards: it may be kept as long as needed and patched in place.

Memory: small frames are received into a chunk that is always reused and copied out of it (below a microsecond). All
connections of one loop may share a chunk, because it is empty between two callbacks: the beginning of a small frame
waits in memory of its reader. A frame above 32 KiB of which only a beginning has come gets memory of its own, into
which the rest is received directly. A length may lie, so up to a mebibyte this memory grows with what has come, to 32
times that; above, it is an anonymous map, which costs address space only: pages appear as bytes arrive. A reader with a
`FrameMemory` takes those from there.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.net.frame_memory import FrameMemory

_SIZE = struct.Struct(">i").unpack_from
_CHUNK_BYTES = 64 * 1024
_DIRECT_BYTES = 32 * 1024
_MAPPED_BYTES = 1024 * 1024
_GROWTH = 32
READ_BYTES = 1024 * 1024
"""The most that is received at once: the budget of all connections is checked between two reads."""
_HTTP = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN")
_TLS_RECORDS = (0x15, 0x16)
"""An alert, and the handshake with which a connection begins."""
_TLS_MAJOR = 3


class InvalidFrameSize(ConnectionError):
    """A size below zero, above the limit, or for which there is no memory.

    The stream cannot be followed any further, so close the connection.
    """

    def __init__(self, text: str, *, is_above_limit: bool = False) -> None:
        """`is_above_limit` says that a larger limit would have let the frame in."""
        super().__init__(text)
        self.is_above_limit = is_above_limit


class FrameReader:
    """Follows one stream. After `InvalidFrameSize` it must not be used again."""

    __slots__ = (
        "_chunk",
        "_frame",
        "_frame_size",
        "_memory",
        "_on_frame",
        "_rest",
        "max_bytes",
        "partial_bytes",
    )

    def __init__(
        self,
        on_frame: Callable[[memoryview], None],
        max_bytes: int,
        chunk: bytearray | None = None,
        memory: FrameMemory | None = None,
    ) -> None:
        """Take `on_frame`, which is called with every complete frame of up to `max_bytes`; `chunk` receives the bytes.

        `memory` gives that of frames above a mebibyte.

        What `on_frame` raises comes out of `buffer_updated`; the reader must not be used after that.
        """
        self._on_frame = on_frame
        self._memory = memory
        self.max_bytes = max_bytes
        """The largest frame."""
        self._chunk = memoryview(bytearray(_CHUNK_BYTES) if chunk is None else chunk)
        assert len(self._chunk) >= _CHUNK_BYTES
        self._rest = b""  # the beginning of a small frame. Invariant: shorter than the chunk
        self._frame: memoryview | None = (
            None  # a large frame in progress, filled up to partial_bytes
        )
        self._frame_size = 0  # how long it will be. Invariant: not below the length of _frame
        self.partial_bytes = 0
        """Received bytes of an incomplete frame."""

    @property
    def missing_bytes(self) -> int:
        """Return the missing bytes of an incomplete large frame; 0 without one."""
        return 0 if self._frame is None else self._frame_size - self.partial_bytes

    @property
    def memory_bytes(self) -> int:
        """Return the memory of an incomplete frame."""
        return len(self._rest) if self._frame is None else len(self._frame)

    def drop(self) -> None:
        """Release a frame that will not be finished."""
        self._frame, self._rest, self.partial_bytes = None, b"", 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes; never empty. A positive `sizehint` bounds what begins frames."""
        if self._frame is not None:
            return self._frame[self.partial_bytes : self.partial_bytes + READ_BYTES]
        rest = self._rest
        chunk = self._chunk if sizehint <= 0 else self._chunk[: max(sizehint, len(rest) + 1)]
        if not rest:
            return chunk
        chunk[: len(rest)] = rest
        return chunk[len(rest) :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that were put into the last buffer and hand out the frames that they complete.

        Raise InvalidFrameSize; frames before the bad size have been returned.
        """
        frame = self._frame
        if frame is None:
            self._cut(len(self._rest) + nbytes)
            return
        self.partial_bytes += nbytes
        if self.partial_bytes < len(frame):
            return
        if self.partial_bytes < self._frame_size:
            self._frame = _memory_for(self._frame_size, frame, self._memory)
            return
        self._frame = None
        self.partial_bytes = 0
        self._on_frame(frame)

    def _cut(self, end: int) -> None:
        chunk, on_frame, max_bytes = self._chunk, self._on_frame, self.max_bytes
        position = 0
        self._rest = b""
        while end - position >= 4:
            (size,) = _SIZE(chunk, position)
            if not 0 <= size <= max_bytes:
                hint = _other_protocol(bytes(chunk[position : position + 4]))
                raise InvalidFrameSize(
                    f"frame of {size} bytes, allowed are 0 to {max_bytes}{hint}",
                    is_above_limit=size > max_bytes and not hint,
                )
            frame_end = position + 4 + size
            if frame_end > end:
                if size > _DIRECT_BYTES:
                    self._begin_large(size, chunk[position + 4 : end])
                    return
                break
            frame = memoryview(bytearray(chunk[position + 4 : frame_end]))
            position = frame_end
            on_frame(frame)
        self.partial_bytes = end - position
        if position < end:
            self._rest = bytes(chunk[position:end])

    def _begin_large(self, size: int, received: memoryview) -> None:
        self._frame = _memory_for(size, received, self._memory)
        self.partial_bytes = len(received)
        self._frame_size = size


def _other_protocol(size: bytes) -> str:
    """Return which protocol the four bytes of a size belong to, if they are the beginning of a well-known one."""
    if size in _HTTP:
        return ": the other end speaks HTTP, not Kafka's protocol"
    if size[0] in _TLS_RECORDS and size[1] == _TLS_MAJOR:
        return ": the other end speaks TLS, and this connection is plain text"
    return ""


def _memory_for(size: int, received: memoryview, memory: FrameMemory | None) -> memoryview:
    """Return memory that begins with the bytes received, for the rest of a frame or the next part of it."""
    if size > _MAPPED_BYTES:
        try:
            frame = memoryview(mmap.mmap(-1, size)) if memory is None else memory.take(size)
        except OSError as error:
            raise InvalidFrameSize(f"no memory for a frame of {size} bytes: {error}") from error
    else:
        frame = memoryview(bytearray(min(size, max(_GROWTH * len(received), _DIRECT_BYTES))))
    frame[: len(received)] = received
    return frame
