"""The calls that wait in a client: closing the client ends them with an error, as in Kafka's clients."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


class PendingCalls:
    """The calls of one client that are inside of `until_closed`."""

    def __init__(self, client: str) -> None:
        """Take the name of the client, as errors have it."""
        self._client = client
        self._is_closed = False
        self._calls: dict[PendingCall, None] = {}

    def until_closed(self) -> PendingCall:
        """Return a context for a `with` that raises RuntimeError, while it waits, when the client is closed."""
        return PendingCall(self)

    def add(self, call: PendingCall) -> None:
        """Register a call that `end` ends. Raise RuntimeError after it."""
        if self._is_closed:
            raise self.closed_error()
        self._calls[call] = None

    def discard(self, call: PendingCall) -> None:
        """Forget a call that is over."""
        del self._calls[call]

    def end(self) -> None:
        """End all calls but those of the task that runs now: a callback of a call may close the client."""
        self._is_closed = True
        closing = asyncio.current_task()
        for call in self._calls:
            if call.task is not closing:
                call.end()

    def closed_error(self) -> RuntimeError:
        """Return what an ended call raises."""
        return RuntimeError(f"the {self._client} is closed")


class PendingCall:
    """One `with` in one task. Cancelling the task works as without it, as in `asyncio.timeout`."""

    __slots__ = ("_calls", "_cancellations", "_is_ended", "task")

    def __init__(self, calls: PendingCalls) -> None:
        """Belong to no task before the `with`."""
        self._calls = calls
        self._is_ended = False

    def __enter__(self) -> None:
        """Begin."""
        task = asyncio.current_task()
        assert task is not None
        self.task: asyncio.Task[Any] = task
        self._cancellations = task.cancelling()
        self._calls.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise RuntimeError in place of the cancellation that `end` has made."""
        self._calls.discard(self)
        if self._is_ended:
            is_cancelled = self.task.uncancel() > self._cancellations  # by its owner, as well
            if kind is asyncio.CancelledError and not is_cancelled:
                raise self._calls.closed_error() from None

    def end(self) -> None:
        """Cancel what the task waits for."""
        if not self._is_ended:
            self._is_ended = True
            self.task.cancel()


class _Client(Protocol):
    _calls: PendingCalls

    def _require_loop(self) -> None: ...


S = TypeVar("S", bound=_Client)


def until_closed(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """End a client's method, while it waits, with RuntimeError when the client is closed; refuse it afterwards."""

    @wraps(method)
    async def call(client: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        client._require_loop()
        with client._calls.until_closed():
            return await method(client, *args, **kwargs)

    return call


def mark_coroutine_function(function: Callable[..., Any]) -> None:
    """Mark a function that returns a coroutine: web frameworks run others in threads."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        marker = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
        function._is_coroutine = marker  # type: ignore[attr-defined]


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Return whether a function returns a coroutine, be it marked or `async def`."""
    return inspect.iscoroutinefunction(function) or hasattr(function, "_is_coroutine")


def all_until_closed(cls: C) -> C:
    """Apply `until_closed` to all public coroutines of a client's class."""
    for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in ("start", "close"):
            setattr(cls, name, until_closed(method))
    return cls
