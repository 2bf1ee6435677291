"""Read flow control of a connection: frames wait to be handled, and reading pauses while the connection is full."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kavka.io import Transport


class ReadFlowControl:
    """The frames of one connection that were received and not handled yet, and whether it is read on."""

    __slots__ = ("_handle", "frames", "is_paused")

    def __init__(self) -> None:
        """Begin without frames, reading."""
        self.frames: deque[memoryview] = deque()
        """They are of one packet: while there are any, no more is read."""
        self.is_paused = False
        self._handle: asyncio.Handle | None = None

    def update(
        self,
        transport: Transport | None,
        handle_frames: Callable[[], None],
        *,
        is_full: bool,
        is_held_back: bool = False,
    ) -> None:
        """Schedule the handling of frames, or read on when none wait, unless the connection is full.

        To be called after each time slice and whenever there may be room again. A connection that is held back is not
        read; its frames are handled.
        """
        if transport is None or transport.is_closing():
            return
        must_wait = is_full or is_held_back
        if self.frames:
            if not is_full and self._handle is None:
                self._handle = asyncio.get_running_loop().call_soon(self._run, handle_frames)
            must_wait = True
        if must_wait and not self.is_paused:
            self.is_paused = True
            transport.pause_reading()
        elif not must_wait and self.is_paused:
            self.is_paused = False
            transport.resume_reading()

    @property
    def is_scheduled(self) -> bool:
        """Return whether frames wait, and will be handled soon."""
        return self._handle is not None

    def drop(self) -> None:
        """Stop handling frames: the connection is closed."""
        self.frames.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self, handle_frames: Callable[[], None]) -> None:
        self._handle = None
        handle_frames()
