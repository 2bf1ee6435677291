"""The outcome of one record: a future that is accepted wherever a coroutine is.

`send` returns one. A coroutine would have to be wrapped in a task before several records can be awaited together, which
takes asyncio four times as long as all that a producer does for them. What takes nothing but coroutines, such as
`asyncio.create_task`, finds `send`, `throw` and `close` here.

A program awaits most records once. So the first callback stays here, and the callbacks of all records that a response
acknowledges are called by one callback of the loop, in place of one each; further ones are asyncio's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NamedTuple, NoReturn


class RecordMetadata(NamedTuple):
    """The partition and offset of a record.

    `offset` is -1 with acks=0; `timestamp_ms` is the log's if the topic has LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def _removed(future: object) -> None:
    """Stand for a callback that was removed, so that later ones are not called before those between."""


class RecordFuture(asyncio.Future[RecordMetadata]):
    """The outcome of one record.

    It has no constructor of its own, because that would take as long as asyncio's: `new_future` makes it.
    """

    __slots__ = ("callback", "context", "index")

    __name__ = "send"  # of the coroutine that it stands for, in the names of tasks
    cr_running = False
    cr_await = cr_code = cr_frame = cr_origin = None

    callback: Callable[[Any], object] | None
    """The callback that was added first, until it is called or left to the loop."""
    context: Context
    """The context in which it is called."""
    index: int
    """The place of the record in its batch, once it is in one."""

    # A future

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

    def set_result(self, result: RecordMetadata, /) -> None:
        """Say where the record is."""
        self._call_soon()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Say why the record was not written."""
        self._call_soon()
        super().set_exception(exception)

    def cancel(self, msg: Any | None = None) -> bool:
        """Give up waiting; the record is sent all the same."""
        self._call_soon()
        return super().cancel(msg)

    def _call_soon(self) -> None:
        """Leave the first callback to the loop, before the others."""
        callback = self.callback
        if callback is not None and not self.done():
            self.callback = None
            self.get_loop().call_soon(callback, self, context=self.context)

    # A coroutine

    def send(self, value: None, /) -> RecordFuture:
        """Return what a task has to wait for. Raise StopIteration with the outcome once that is known."""
        if self.done():
            raise StopIteration(self.result())
        self._asyncio_future_blocking = True
        return self

    def throw(self, kind: Any, value: Any = None, trace: Any = None, /) -> NoReturn:
        """Raise an exception where the outcome is awaited, which nothing waits for then."""
        self.cancel()
        if value is None:
            raise kind
        raise value if isinstance(value, BaseException) else kind(value)

    def close(self) -> None:
        """Give up waiting."""
        self.cancel()

    @property
    def cr_suspended(self) -> bool:
        """Return whether something waits for the outcome."""
        return self.callback is not None


def new_future(loop: asyncio.AbstractEventLoop) -> RecordFuture:
    """Return the future of a record."""
    future = RecordFuture(loop=loop)
    future.callback = None
    return future


def failed_coroutine(
    loop: asyncio.AbstractEventLoop, error: Exception
) -> Coroutine[Any, Any, RecordMetadata]:
    """Return the outcome of a record that was not taken."""
    future: Any = new_future(loop)
    future.set_exception(error)
    failed: Coroutine[Any, Any, RecordMetadata] = future
    return failed


def call_first(futures: list[RecordFuture]) -> None:
    """Call the first callbacks of futures that are done, as the loop calls others; in a callback of the loop."""
    for index, future in enumerate(futures):
        callback, future.callback = future.callback, None
        if callback is None:
            continue
        try:
            future.context.run(callback, future)
        except (SystemExit, KeyboardInterrupt):
            future.get_loop().call_soon(call_first, futures[index + 1 :])
            raise
        except BaseException as error:  # noqa: BLE001  the loop's handler has it, as of any callback
            future.get_loop().call_exception_handler(
                {
                    "message": "the callback of a record's future failed",
                    "exception": error,
                    "future": future,
                }
            )
