"""Producer, consumer and admin client for programs without asyncio.

The same methods as in `kavka.client`, without `await`. Every client has a thread with a loop of its own; its
methods may be called from any thread. An exception is raised in the calling thread as the asynchronous method
raises it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import inspect
import logging
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from kavka.client.admin import Admin as AsyncAdmin
from kavka.client.client import MAKE_IT_IN_THE_CHILD
from kavka.client.consumer import Consumer as AsyncConsumer
from kavka.client.consumer import ConsumerRecord, FetchedBatches, RebalanceListener
from kavka.client.producer import BufferFull, PreparedTxnState, RecordMetadata
from kavka.client.producer import Producer as AsyncProducer
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_QUEUED = 10_000
"""Records of `append` that wait for the loop's thread at most: then the caller waits."""

_EXIT_FLUSH_MS = 5_000
"""Maximum milliseconds for which the end of the process waits for records of a producer that was not closed."""

_open_producers: dict[int, Producer] = {}

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
        """Have a function called by the thread that waits."""
        self._calls.put(function)

    def finish(self) -> None:
        """Let the thread go on, after what was handed to it before."""
        self._calls.put(None)

    def wait(self) -> None:
        """Call what is handed over until `finish`."""
        try:
            while (turn := self._calls.get()) is not None:
                turn()
        finally:
            self.is_waiting = False


_caller: ContextVar[_Caller | None] = ContextVar("kavka_caller", default=None)
"""The thread that waits for the coroutine that runs now."""


class LoopThread:
    """A thread that runs an event loop until `stop`."""

    def __init__(self, name: str) -> None:
        """Start."""
        self.loop = asyncio.new_event_loop()
        self._name = name
        self._forks = _forks
        self._callbacks: ThreadPoolExecutor | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def check(self) -> None:
        """Raise RuntimeError where waiting for the thread would never end: in a forked child, and in the thread."""
        if self._forks != _forks:
            raise RuntimeError(
                f"{self._name} was made before this process was forked, and its thread and connections stayed with "
                f"the parent. {MAKE_IT_IN_THE_CHILD}"
            )
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                f"{self._name} was called from its own event loop, which would wait for itself. Serializers, "
                "interceptors and partitioners cannot call their client."
            )

    @property
    def is_forked(self) -> bool:
        """Return whether this process is a fork of the one that the thread runs in."""
        return self._forks != _forks

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its outcome; cancelling (Ctrl-C) cancels it there.

        Callbacks of the user that the coroutine leads to are called in the calling thread.
        """
        try:
            self.check()
        except RuntimeError:
            work.close()
            raise
        caller = _Caller()

        async def called() -> T:
            _caller.set(caller)
            return await work

        future = asyncio.run_coroutine_threadsafe(called(), self.loop)
        future.add_done_callback(lambda _: caller.finish())
        try:
            caller.wait()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in the thread and return its outcome."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    async def call_user(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function of the user outside of the loop, so that it may use the client.

        That is in the thread that waits for what the loop does, as in Kafka's clients; when none waits, in one of
        its own.
        """
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

        def turn() -> None:
            try:
                outcome.set_result(function(*args))
            except BaseException as error:  # noqa: BLE001  it belongs to whoever awaits the callback
                outcome.set_exception(error)

        caller = _caller.get()
        if caller is not None and caller.is_waiting:
            caller.call(turn)
        else:
            self.call_later(turn)
        return await asyncio.wrap_future(outcome)

    def call_later(self, function: Callable[[], None]) -> None:
        """Call a function in a thread that is neither the loop's nor the caller's; one after the other."""
        if self._callbacks is None:
            self._callbacks = ThreadPoolExecutor(1, thread_name_prefix=f"{self._name}-callbacks")
        self._callbacks.submit(function)

    def is_current(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.get_ident() == self._thread.ident

    def stop(self) -> None:
        """End the loop and wait for the thread; callbacks that were begun may go on."""
        if self._callbacks is not None:
            self._callbacks.shutdown(wait=False)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


class _Blocking:
    """Base of the three: an asynchronous client in a thread. Methods are forwarded by name."""

    _client_class: ClassVar[type[Any]]

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Check the settings and connect. Raise as the asynchronous client's constructor and `start`."""
        self._async = self._client_class(config, **doors)
        self._async.logs_lost_records = False
        self._thread: LoopThread | None = LoopThread(f"kavka-{self._client_class.__name__.lower()}")
        self._closing = threading.Lock()
        try:
            self._thread.run(self._async.start())
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        """Return itself; it is connected already."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self, **options: Any) -> None:
        """Close as the asynchronous client, and end the thread; calling it twice is allowed.

        In a forked child it forgets the client and leaves the parent's alone.
        """
        thread = self._thread
        if thread is None or not self._closing.acquire(blocking=False):
            return
        if thread.is_forked:
            self._thread = None
            return
        try:
            thread.run(self._close(options))
        finally:
            self._thread = None
            thread.stop()

    async def _close(self, options: dict[str, Any]) -> None:
        await self._async.close(**options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stand for the methods that `_forward` adds."""

    def _require_thread(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError(f"the {self._client_class.__name__.lower()} is closed")
        self._thread.check()
        return self._thread


def _forward(client_class: type[Any], without: frozenset[str]) -> Callable[[type[T]], type[T]]:
    """Give a class all public methods of `client_class` that it does not define itself."""

    def decorate(cls: type[T]) -> type[T]:
        for name, method in inspect.getmembers(client_class, inspect.isfunction):
            if not name.startswith("_") and name not in without and name not in cls.__dict__:
                setattr(cls, name, _blocking_method(name, method))
        return cls

    return decorate


def _blocking_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    is_coroutine = inspect.iscoroutinefunction(method)

    @wraps(method)
    def blocking(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = self._require_thread()
        bound = getattr(self._async, name)
        if is_coroutine:
            return thread.run(bound(*args, **kwargs))
        return thread.call(bound, *args, **kwargs)

    return blocking


_LIFECYCLE_METHODS = frozenset({"start", "close"})


@_forward(
    AsyncProducer, _LIFECYCLE_METHODS | {"append", "fail", "raise_failure", "require_begun", "room"}
)
class Producer(_Blocking):
    """`kavka.client.Producer` for threads: `send`, `append`, `send_many`, `send_table`, `flush`, transactions."""

    _client_class = AsyncProducer

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Connect."""
        super().__init__(config, **doors)
        self._is_transactional = bool(config.get("transactional.id"))
        self._queued: deque[tuple[Any, ...]] = deque()
        self._is_draining = False
        self._drain_lock = asyncio.Lock()  # for one drain at a time, whoever started it
        self._has_space = threading.Condition()
        self._drains: set[asyncio.Task[None]] = set()
        _open_producers[id(self)] = self

    def close(self, **options: Any) -> None:
        """Send what waits, within the option `timeout_ms`, and close.

        Raise the first failure of a record without a future.
        """
        _open_producers.pop(id(self), None)
        super().close(**options)

    def _flush_at_exit(self) -> None:
        """Send what waits while the process ends, within a bound, and say what became of it."""
        thread = self._thread
        if thread is None or thread.is_forked:
            return
        count = thread.call(self._waiting_records)
        if count == 0:
            return
        log.warning("producer not closed before the process ended records=%d", count)
        try:
            self.flush(_EXIT_FLUSH_MS)
        except Exception as error:  # noqa: BLE001  the process ends: all that is left is to say it
            left = thread.call(self._waiting_records)
            log.warning("records lost at the end of the process records=%d reason=%s", left, error)

    def _waiting_records(self) -> int:
        taken: int = self._async.waiting_records()
        return len(self._queued) + taken

    def append(
        self, topic: str, value: Any = None, key: Any = None, **options: Any
    ) -> concurrent.futures.Future[RecordMetadata] | None:
        """Hand a record over without waiting for its delivery; with `want_future`, return a future.

        The thread takes records in bunches. Wait only when it is behind or `buffer.memory` is used up. What is
        wrong with a record is found in the thread and raised by its future, else by `flush`; in a transaction by its
        commit, too. Raise RuntimeError outside of a transaction, where a transactional producer sends nothing.
        """
        thread = self._require_thread()
        if self._is_transactional:
            self._async.require_begun()
        callback = options.get("callback")
        if callback is not None:
            options["callback"] = partial(_call_back_on_caller_thread, thread, callback)
        future: concurrent.futures.Future[RecordMetadata] | None = None
        if options.pop("want_future", False):
            future = _DeliveryFuture(thread)
            future.set_running_or_notify_cancel()  # a record cannot be taken back
        if len(self._queued) >= _MAX_QUEUED:
            with self._has_space:
                self._has_space.wait_for(lambda: len(self._queued) < _MAX_QUEUED)
        self._queued.append((topic, value, key, options, future))
        if not self._is_draining:
            self._is_draining = True
            asyncio.run_coroutine_threadsafe(self._drain(), thread.loop)
        return future

    async def _drain(self) -> None:
        async with self._drain_lock:
            await self._take_queued()

    async def _take_queued(self) -> None:
        handed_over, append = self._queued, self._async.append
        while handed_over:
            topic, value, key, options, future = handed_over[0]
            try:
                if future is None and not options:
                    append(topic, value, key)
                else:
                    wanted = append(topic, value, key, want_future=future is not None, **options)
                    if future is not None:
                        wanted.add_done_callback(_copy_outcome(future))
            except BufferFull:
                self._wake_callers()
                try:
                    await self._async.wait_for_memory()
                except TimeoutError as error:
                    handed_over.popleft()
                    self._fail(future, error)
                continue
            except Exception as error:  # noqa: BLE001  whatever is wrong belongs to the record's sender
                self._fail(future, error)
            handed_over.popleft()
        self._is_draining = False
        self._wake_callers()
        if handed_over and not self._is_draining:  # one came in between
            self._is_draining = True
            await self._take_queued()

    def _fail(
        self, future: concurrent.futures.Future[RecordMetadata] | None, error: Exception
    ) -> None:
        if future is not None:
            future.set_exception(error)
        else:
            self._async.fail(error)

    def _wake_callers(self) -> None:
        with self._has_space:
            self._has_space.notify_all()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send all that was handed over and wait.

        Raise the first failure of a record without a future; TimeoutError after `timeout_ms`.
        """

        async def work() -> None:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._take_all()
                await self._async.flush()

        self._require_thread().run(work())

    def commit_transaction(self) -> None:
        """Take what was handed over, and commit as the asynchronous producer."""

        async def work() -> None:
            await self._take_all()
            await self._async.commit_transaction()

        self._require_thread().run(work())

    def prepare_transaction(self) -> PreparedTxnState | None:
        """Take what was handed over, and prepare as the asynchronous producer."""

        async def work() -> PreparedTxnState | None:
            await self._take_all()
            prepared: PreparedTxnState | None = await self._async.prepare_transaction()
            return prepared

        return self._require_thread().run(work())

    def abort_transaction(self) -> None:
        """Take what was handed over, which is dropped, and abort as the asynchronous producer."""

        async def work() -> None:
            await self._take_all()
            await self._async.abort_transaction()

        self._require_thread().run(work())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, commit it at the end of the `with`, or abort it when that raises; then raise on."""
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException:
            if self._async.can_abort:
                self.abort_transaction()
            raise

    async def _take_all(self) -> None:
        """Take what was handed over. Who gives up waiting does not stop it: others wait for the same."""
        while self._queued:
            task = asyncio.create_task(self._drain())
            self._drains.add(task)
            task.add_done_callback(self._drains.discard)
            await asyncio.shield(task)

    async def _close(self, options: dict[str, Any]) -> None:
        """Take and send what waits within the option `timeout_ms`, fail the rest, close."""
        timeout_ms = options.get("timeout_ms")
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                await self._take_all()
        except TimeoutError:
            log.warning(
                "producer closed before all records were appended records=%d", len(self._queued)
            )
        if deadline is not None:
            timeout_ms = max(int((deadline - loop.time()) * 1000), 0)
        try:
            await self._async.close(**options | {"timeout_ms": timeout_ms})
        finally:
            await self._drain()  # what is left is refused, and whoever sent it learns of that
        self._async.raise_failure()


def _copy_outcome(
    target: concurrent.futures.Future[RecordMetadata],
) -> Callable[[asyncio.Future[RecordMetadata]], None]:
    def copy(source: asyncio.Future[RecordMetadata]) -> None:
        error = source.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(source.result())

    return copy


class _DeliveryFuture(concurrent.futures.Future[RecordMetadata]):
    """The future of a record; its callbacks may use the producer, because they are not called by the loop's thread."""

    def __init__(self, thread: LoopThread) -> None:
        super().__init__()
        self._loop_thread = thread

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Call `fn` with this future once it is done: in a thread for callbacks, or at once if it is done already."""
        super().add_done_callback(partial(_call_on_caller_thread, self._loop_thread, fn))


def _call_on_caller_thread(
    thread: LoopThread,
    function: Callable[[concurrent.futures.Future[Any]], object],
    future: concurrent.futures.Future[Any],
) -> None:
    if thread.is_current():
        thread.call_later(partial(_guarded, function, future))
    else:
        function(future)


def _call_back_on_caller_thread(
    thread: LoopThread,
    callback: Callable[[RecordMetadata | None, Exception | None], object],
    metadata: RecordMetadata | None,
    error: Exception | None,
) -> None:
    thread.call_later(partial(_guarded, callback, metadata, error))


def _guarded(callback: Callable[..., object], *args: object) -> None:
    """Call a callback of the user; an exception must not end the thread that calls the next one."""
    try:
        callback(*args)
    except Exception:
        log.exception("delivery callback failed")


def _flush_open_producers() -> None:
    for producer in list(_open_producers.values()):
        producer._flush_at_exit()


atexit.register(_flush_open_producers)


class _CallerThreadListener(RebalanceListener):
    """Calls a user's listener outside of the loop; coroutines stay there."""

    def __init__(self, thread: LoopThread, listener: RebalanceListener) -> None:
        self._thread = thread
        self._listener = listener

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_revoked, partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_assigned, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_lost, partitions)

    async def _call(
        self,
        method: Callable[[Sequence[TopicPartition]], Any],
        partitions: Sequence[TopicPartition],
    ) -> None:
        if inspect.iscoroutinefunction(method):
            await method(partitions)
            return
        result = await self._thread.call_user(method, partitions)
        if inspect.isawaitable(result):
            await result


@_forward(AsyncConsumer, _LIFECYCLE_METHODS | {"commit_soon", "go_back"})
class Consumer(_Blocking):
    """`kavka.client.Consumer` for threads; iterating gives records.

    Listeners are called in the thread that waits in `poll`, `unsubscribe` or `close`, and may use the consumer.
    """

    _client_class = AsyncConsumer

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Connect."""
        self._iterating = threading.Lock()
        super().__init__(config, **doors)

    def close(self, **options: Any) -> None:
        """Commit if so configured, leave the group and close, within the option `timeout_ms`.

        While an exception is handled, the record that an iteration handed out last does not count as processed.
        """
        if sys.exc_info()[0] is not None:
            self._async.put_back_unfinished()
        super().close(**options)

    def subscribe(
        self, *args: Any, listener: RebalanceListener | None = None, **kwargs: Any
    ) -> None:
        """Read topics as `kavka.client.Consumer.subscribe`."""
        thread = self._require_thread()
        outside = None if listener is None else _CallerThreadListener(thread, listener)
        thread.call(self._async.subscribe, *args, listener=outside, **kwargs)

    def poll(self, *args: Any, **kwargs: Any) -> list[FetchedBatches]:
        """Return what is fetched, as `kavka.client.Consumer.poll`."""
        thread = self._require_thread()
        found: list[FetchedBatches] = thread.run(self._async.poll(*args, **kwargs))
        for batches in found:
            if batches.go_back is not None:
                batches.go_back = partial(_go_back, thread, batches.go_back)
        return found

    def __iter__(self) -> Self:
        """Iterate over records without end; each counts as consumed when it is returned."""
        self._require_thread()
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record. Raise what `poll` raises, and RecordDeserializationError."""
        self._require_thread()
        record: ConsumerRecord
        for record in self._async.buffered_rows():
            return record
        with self._iterating:
            record = self._require_thread().run(self._async.__anext__())
            return record


def _go_back(
    thread: LoopThread,
    go_back: Callable[..., bool],
    topic_partition: TopicPartition,
    position: int,
    offset: int,
) -> bool:
    """Move a position back in the loop's thread, wherever the batches are decoded."""
    if thread.is_current():
        return go_back(topic_partition, position, offset)
    return thread.call(go_back, topic_partition, position, offset)


@_forward(AsyncAdmin, _LIFECYCLE_METHODS)
class Admin(_Blocking):
    """`kavka.client.Admin` for threads."""

    _client_class = AsyncAdmin
