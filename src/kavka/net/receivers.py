"""Receivers of the responses of a peer, and the counting of what it sends and receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Traffic(Protocol):
    """Counts what a peer sends and receives."""

    def sent(self, size: int) -> None:
        """Count a request of `size` bytes."""
        ...

    def answered(self, api_key: int, size: int, latency_s: float) -> None:
        """Count a response of `size` bytes, and the time since its request."""
        ...


Encode = Callable[[int, int, str | None], Sequence[Any]]
"""Returns the frame of a request, with its size, for a version, a correlation id and a client id."""


class Receiver(Protocol):
    """Takes the response of one request, in the iteration of the loop in which it came; a future is one."""

    def done(self) -> bool:
        """Return whether it has a result, or was given up."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take the response. Must not raise."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Take the reason for which there is none. Must not raise."""
        ...


class CallbackReceiver:
    """A receiver that calls a function with the response, or with the reason for which there is none."""

    __slots__ = ("_call", "_loop")

    def __init__(
        self,
        call: Callable[[Any, Exception | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`call` is called once; what it raises is given to the loop, as that of other callbacks."""
        self._call = call
        self._loop = loop

    def done(self) -> bool:
        """Return false: nothing is given up."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Take the response."""
        self._run(result, None)

    def set_exception(self, exception: Exception, /) -> None:
        """Take the reason for which there is none."""
        self._run(None, exception)

    def _run(self, result: Any, error: Exception | None) -> None:
        try:
            self._call(result, error)
        except Exception as failure:  # noqa: BLE001  the loop's handler has it, as of any callback
            self._loop.call_exception_handler(
                {"message": "the callback of a response failed", "exception": failure}
            )


Decode = Callable[[int, memoryview], Any]
"""Returns the response of a version from its frame, None where it is to be decoded as any other."""
