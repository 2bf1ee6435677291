"""The calls that wait in a client: closing the client ends them with an error, as in Kafka's clients."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


class PendingCalls:
    """The tasks that are inside of `until_closed`, each with its number of blocks: a callback may call again."""

    def __init__(self, client: str) -> None:
        """Take the name of the client, as errors have it."""
        self._client = client
        self._blocks: dict[asyncio.Task[Any], int] = {}
        self._ended: set[asyncio.Task[Any]] = set()

    @contextmanager
    def until_closed(self) -> Iterator[None]:
        """Raise RuntimeError in a block that waits when the client is closed. Cancelling works as without it."""
        task = asyncio.current_task()
        assert task is not None
        self._blocks[task] = self._blocks.get(task, 0) + 1
        cancellations = task.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            self._ended.discard(task)
            if task.uncancel() > cancellations:
                raise  # it was cancelled by its owner as well
            raise self.closed_error() from None
        finally:
            self._blocks[task] -= 1
            if not self._blocks[task]:
                del self._blocks[task]
                self._ended.discard(task)

    def end(self) -> None:
        """End all calls but the one that runs now: a callback of a call may close the client."""
        closing = asyncio.current_task()
        for task in self._blocks:
            if task is not closing and task not in self._ended:
                self._ended.add(task)
                task.cancel()

    def closed_error(self) -> RuntimeError:
        """Return what an ended call raises."""
        return RuntimeError(f"the {self._client} is closed")


def until_closed(
    method: Callable[..., Coroutine[Any, Any, T]],
) -> Callable[..., Coroutine[Any, Any, T]]:
    """End a client's method, while it waits, with RuntimeError when the client is closed; refuse it afterwards."""

    @wraps(method)
    async def call(self: Any, *args: Any, **kwargs: Any) -> T:
        self._require_open()
        with self._calls.until_closed():
            return await method(self, *args, **kwargs)

    return call


def all_until_closed(cls: C) -> C:
    """Apply `until_closed` to all public coroutines of a client's class."""
    for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in ("start", "close"):
            setattr(cls, name, until_closed(method))
    return cls
