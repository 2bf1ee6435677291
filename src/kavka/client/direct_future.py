"""Futures whose first callback is called by their owner, together with those of others, and not by a handle each.

A program awaits most futures once, and `asyncio.Future` has a handle made and queued for each callback. Here the first
callback stays in the future. An owner that completes many at a time, in a callback of the loop, sets their results with
`asyncio.Future.set_result` and has the callbacks called by `call_first`; all other ways are those of asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def _removed(future: object) -> None:
    """Stand for a callback that was removed, so that later ones are not called before those between."""


class DirectFuture(asyncio.Future[T]):
    """A future with a place for its first callback.

    Its maker sets `callback` to None: a constructor would take as long as asyncio's.
    """

    __slots__ = ("callback", "context")

    callback: Callable[[Any], object] | None
    """The callback that was added first, until it is called or left to the loop."""
    context: Context
    """The context in which it is called; there is one as long as there is a callback."""

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """Call `fn` with this future in the iteration of the loop after it is done."""
        if context is None:
            context = copy_context()
        if self.callback is None and not self.done():
            self.callback, self.context = fn, context
        else:
            super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object], /) -> int:
        """Remove a callback, and return how often it was there."""
        count = super().remove_done_callback(fn)
        if self.callback == fn:
            self.callback = _removed
            count += 1
        return count

    def set_result(self, result: T, /) -> None:
        """Set the result."""
        self._call_soon()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Set the exception."""
        self._call_soon()
        super().set_exception(exception)

    def cancel(self, msg: Any | None = None) -> bool:
        """Give up waiting."""
        self._call_soon()
        return super().cancel(msg)

    def _call_soon(self) -> None:
        """Leave the first callback to the loop, before the others."""
        callback = self.callback
        if callback is not None and not self.done():
            self.callback, context = None, self.context
            del self.context
            self.get_loop().call_soon(callback, self, context=context)


def call_first(futures: Sequence[DirectFuture[Any]]) -> None:
    """Call the first callbacks of futures that are done, as the loop calls others; in a callback of the loop."""
    for index, future in enumerate(futures):
        callback, future.callback = future.callback, None
        if callback is None:
            continue
        context = future.context
        del future.context  # it may have much, and a program may keep the future
        try:
            context.run(callback, future)
        except (SystemExit, KeyboardInterrupt):
            future.get_loop().call_soon(call_first, futures[index + 1 :])
            raise
        except BaseException as error:  # noqa: BLE001  the loop's handler has it, as of any callback
            future.get_loop().call_exception_handler(
                {
                    "message": "the callback of a future failed",
                    "exception": error,
                    "future": future,
                }
            )
