"""A thread with an event loop for the blocking clients, and the thread that calls delivery callbacks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from kavka.client.client import MAKE_IT_IN_THE_CHILD

log = logging.getLogger(__name__)

T = TypeVar("T")

_END_S = 5.0
"""Seconds that cancelled coroutines have, at the end of the loop's thread, to finish."""

_forks = 0
"""Number of forks between this process and the import."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class _Caller:
    """A thread that waits for a coroutine of the loop's thread, and runs callbacks for it meanwhile."""

    __slots__ = ("_calls", "is_waiting")

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.is_waiting = True

    def call(self, function: Callable[[], None]) -> None:
        """Queue a function for the thread that waits."""
        self._calls.put(function)

    def finish(self) -> None:
        """Release the thread after the functions that were queued before."""
        self._calls.put(None)

    def wait(self) -> None:
        """Call what is handed over until `finish`."""
        try:
            while (call := self._calls.get()) is not None:
                call()
        finally:
            self.is_waiting = False


_caller: ContextVar[_Caller | None] = ContextVar("kavka_caller", default=None)
"""The thread that waits for the coroutine that runs now."""


class CallbackThread:
    """A daemon thread that calls delivery callbacks of the user, one after the other, in the order of `call`.

    It is no ThreadPoolExecutor, because those take nothing any more once the interpreter begins to end.
    """

    def __init__(self, name: str) -> None:
        """Start nothing before `start`."""
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    def start(self) -> None:
        """Start unless it runs already; any thread may call it."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    thread.start()
                    self._thread = thread

    def call(self, function: Callable[[], object]) -> None:
        """Call a function after those before it. What it raises is logged, and keeps no other from being called."""
        self.start()
        self._calls.put(function)

    def is_current(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return once every function that was given to `call` so far has returned; False after `timeout_s`.

        Return at once in a callback, which would wait for its own end.
        """
        thread = self._thread
        if thread is None or self.is_current():
            return True
        called = threading.Event()
        with self._lock:
            is_stopped = self._is_stopped
            if not is_stopped:
                self._calls.put(called.set)
        if is_stopped:
            thread.join(timeout_s)
            return not thread.is_alive()
        return called.wait(timeout_s)

    def stop(self) -> None:
        """End the thread after what was given to `call` before; do not wait for it."""
        with self._lock:
            self._is_stopped = True
            self._calls.put(None)

    def _run(self) -> None:
        forks = _forks
        while (function := self._calls.get()) is not None:
            try:
                function()
            except BaseException:  # sys.exit() of a callback, too, must not end the thread
                if _forks != forks:
                    raise
                log.exception("delivery callback failed")
            if _forks != forks:
                return  # a child that the callback forked: this is its only thread, and further calls are the parent's


class LoopThread:
    """A thread that runs an event loop until `stop`.

    Invariant: a future is in `_pending` from its call until it is done, so that the end of the thread ends its wait.
    """

    def __init__(self, client: str) -> None:
        """Start; `client` is the name of the client, as the thread's name and errors have it."""
        self.loop = asyncio.new_event_loop()
        self._client = client
        self._name = f"kavka-{client}"
        self._forks = _forks
        self.callbacks = CallbackThread(f"{self._name}-callbacks")
        self._lock = threading.Lock()
        self._is_stopped = False
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        try:
            self.loop.run_until_complete(self._cancel_tasks())
        finally:
            for future in list(self._pending):  # of coroutines that did not end when cancelled
                future.cancel()
            self.loop.close()

    async def _cancel_tasks(self) -> None:
        """Cancel what still runs, as `asyncio.run` does."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)

    def check(self) -> None:
        """Raise RuntimeError where waiting for the thread would never end: in a forked child, and in the thread."""
        if self._forks != _forks:
            raise RuntimeError(
                f"{self._name} was made before this process was forked, and its thread and connections stayed with "
                f"the parent. {MAKE_IT_IN_THE_CHILD}"
            )
        if self.is_current():
            raise RuntimeError(
                f"{self._name} was called from its own event loop, which would wait for itself. Serializers, "
                "interceptors and partitioners cannot call their client."
            )

    @property
    def is_forked(self) -> bool:
        """Return whether this process is a fork of the one that the thread runs in."""
        return self._forks != _forks

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run a coroutine function in the thread and return its outcome; cancelling (Ctrl-C) cancels it there.

        Callbacks of the user that the coroutine leads to are called in the calling thread. Raise RuntimeError once
        the thread is stopped, also where the coroutine began before.

        The coroutine is made in the thread: one that was made here would never start when Ctrl-C comes in between.
        """
        self.check()
        caller = _Caller()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        future.add_done_callback(self._pending.discard)
        future.add_done_callback(lambda _: caller.finish())

        async def called() -> T:
            _caller.set(caller)
            return await function(*args, **kwargs)

        try:
            with self._lock:
                if self._is_stopped:
                    raise self._closed_error()
                self._pending.add(future)
                self.loop.call_soon_threadsafe(self._start, called, future)
            caller.wait()
            return future.result()
        except concurrent.futures.CancelledError:
            if not self._is_stopped:
                raise
            raise self._closed_error() from None
        except BaseException:
            future.cancel()
            raise

    def _start(
        self,
        function: Callable[[], Coroutine[Any, Any, T]],
        future: concurrent.futures.Future[T],
    ) -> None:
        """Start a coroutine whose outcome is that of `future`, which cancels it; in the loop's thread."""
        if future.cancelled():
            return
        task = self.loop.create_task(function())

        def cancel_task(done: concurrent.futures.Future[T]) -> None:
            if done.cancelled():
                with suppress(RuntimeError):  # the loop is closed
                    self.loop.call_soon_threadsafe(task.cancel)

        future.add_done_callback(cancel_task)
        task.add_done_callback(partial(_copy_outcome, future))

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Start a coroutine without waiting for it; return False, and start nothing, once the thread is stopped."""
        with self._lock:
            if not self._is_stopped:
                asyncio.run_coroutine_threadsafe(work(), self.loop)
            return not self._is_stopped

    def _closed_error(self) -> RuntimeError:
        return RuntimeError(f"the {self._client} is closed")

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in the thread and return its outcome."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work)

    async def call_user(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function of the user outside of the loop, so that it may use the client.

        That is in the thread that waits for what the loop does, as in Kafka's clients; when none waits, in one of
        its own.
        """
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not outcome.set_running_or_notify_cancel():
                return  # the coroutine has ended, with its client
            try:
                outcome.set_result(function(*args))
            except BaseException as error:  # noqa: BLE001  the coroutine raises it
                outcome.set_exception(error)

        caller = _caller.get()
        if caller is not None and caller.is_waiting:
            caller.call(call)
        else:
            self.callbacks.call(call)
        return await asyncio.wrap_future(outcome)

    def is_current(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop, with all that waits for it, and wait for the thread; callbacks that were begun may continue."""
        with self._lock:
            is_first = not self._is_stopped
            self._is_stopped = True
            if is_first:
                self.loop.call_soon_threadsafe(self.loop.stop)  # behind every coroutine of `run`
        self._thread.join()
        if is_first:
            self.callbacks.stop()  # last: the loop hands callbacks over until its end


def _copy_outcome(future: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
    """End a future with the outcome of a task, unless it was cancelled before."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled():
        future.cancel()
    elif not future.set_running_or_notify_cancel():
        return
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
