"""The outcome of one record: the future of `append`, and that of `send`, which is accepted as a coroutine as well.

A coroutine would have to be wrapped in a task before several records can be awaited together, which takes asyncio four
times as long as all that a producer does for them. What takes nothing but coroutines, such as `asyncio.create_task`,
finds `send`, `throw` and `close` in a SendFuture. `asyncio.wait` refuses what has these, so `append` returns a future
without them.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, NoReturn

from kavka.client.direct_future import DirectFuture


class RecordMetadata(NamedTuple):
    """The partition and offset of a record.

    `offset` is -1 with acks=0; `timestamp_ms` is the log's if the topic has LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class RecordFuture(DirectFuture[RecordMetadata]):
    """The outcome of one record, made by `new_future`. Cancelled, it is given up; the record is sent all the same."""

    __slots__ = ("index",)

    index: int
    """The place of the record in its batch, once it is in one."""


class SendFuture(RecordFuture):
    """The outcome of a record of `send`, made by `new_send_future`: a coroutine to what asks for one."""

    __slots__ = ()

    __name__ = "send"  # of the coroutine that it stands for, in the names of tasks
    cr_running = False
    cr_await = cr_code = cr_frame = cr_origin = None

    def send(self, value: None, /) -> SendFuture:
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


def new_send_future(loop: asyncio.AbstractEventLoop) -> SendFuture:
    """Return what `send` returns."""
    future = SendFuture(loop=loop)
    future.callback = None
    return future


def new_future(loop: asyncio.AbstractEventLoop) -> RecordFuture:
    """Return what `append` returns."""
    future = RecordFuture(loop=loop)
    future.callback = None
    return future
