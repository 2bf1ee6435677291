"""Outcomes of records on their way to the user: callbacks, futures, and the time that a call has left."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from kavka.client.blocking.loop_thread import LoopThread
from kavka.client.producer import RecordMetadata
from kavka.client.producer.batch import Callback

log = logging.getLogger(__name__)


class Deadline:
    """The end of a call that may take `timeout_ms`, by the clock of a loop; None is no end."""

    def __init__(self, thread: LoopThread, timeout_ms: int | None) -> None:
        """Begin now; None is no timeout."""
        self._time = thread.loop.time
        self._end = None if timeout_ms is None else self._time() + timeout_ms / 1000

    def left_s(self) -> float | None:
        """Return the remaining seconds, None without a timeout."""
        return None if self._end is None else max(self._end - self._time(), 0.0)

    def left_ms(self) -> int | None:
        """Return the remaining milliseconds, None without a timeout."""
        left_s = self.left_s()
        return None if left_s is None else int(left_s * 1000)


class DeliveryCallback:
    """A record's callback, called once in the thread for callbacks.

    Invariant: it is in `uncalled` until the user's function has returned.
    """

    __slots__ = ("_function", "_is_reported", "_thread", "_uncalled")

    def __init__(
        self, thread: LoopThread, function: Callback, uncalled: set[DeliveryCallback]
    ) -> None:
        """Call `function` in the callback thread; this object is in `uncalled` until then."""
        self._thread = thread
        self._function = function
        self._uncalled = uncalled
        self._is_reported = False
        uncalled.add(self)

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Take the outcome, in the loop's thread; a second one means nothing."""
        if not self._is_reported:
            self._is_reported = True
            self._thread.callbacks.call(partial(self._call, metadata, error))

    def refuse(self, error: Exception) -> None:
        """Call it in the calling thread, once the loop's thread has ended."""
        if not self._is_reported:
            self._is_reported = True
            try:
                self._call(None, error)
            except Exception:
                log.exception("delivery callback failed")

    def _call(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        try:
            self._function(metadata, error)
        finally:
            self._uncalled.discard(self)


def copy_outcome(
    target: concurrent.futures.Future[RecordMetadata],
) -> Callable[[asyncio.Future[RecordMetadata]], None]:
    """Return a callback of a future of the loop that copies its outcome to `target`."""

    def copy(source: asyncio.Future[RecordMetadata]) -> None:
        error = source.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(source.result())

    return copy


class DeliveryFuture(concurrent.futures.Future[RecordMetadata]):
    """The future of a record; its callbacks may use the producer, because they are not called by the loop's thread."""

    def __init__(self, thread: LoopThread) -> None:
        """Belong to `thread`, in which results must not be waited for."""
        super().__init__()
        self._loop_thread = thread

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Call `fn` with this future once it is done: in a thread for callbacks, or at once if it is done already."""
        self._loop_thread.callbacks.start()
        super().add_done_callback(partial(_call_on_caller_thread, self._loop_thread, fn))


def _call_on_caller_thread(
    thread: LoopThread,
    function: Callable[[concurrent.futures.Future[Any]], object],
    future: concurrent.futures.Future[Any],
) -> None:
    if thread.is_current():
        thread.callbacks.call(partial(function, future))
    else:
        function(future)
