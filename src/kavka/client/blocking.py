"""Producer, consumer and admin client for programs without asyncio.

The same methods as in `kavka.client`, without `await`. Every client has a thread with a loop of its own; its
methods may be called from any thread. An exception is raised in the calling thread as the asynchronous method
raises it. While one thread closes a client, calls of others end: with RuntimeError, or with what became of their
records.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import inspect
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from kavka.client.admin import Admin as AsyncAdmin
from kavka.client.consumer import Consumer as AsyncConsumer
from kavka.client.consumer import ConsumerRecord, FetchedBatches, RebalanceListener
from kavka.client.loop_thread import LoopThread
from kavka.client.producer import BufferFull, PreparedTxnState, RecordMetadata
from kavka.client.producer import Producer as AsyncProducer
from kavka.client.producer.batch import Callback, Headers
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_QUEUED = 10_000
"""Records of `append` that wait for the loop's thread at most: then the caller waits."""

_EXIT_FLUSH_MS = 5_000
"""Maximum milliseconds for which the end of the process waits for records of a producer that was not closed."""

_NO_OPTIONS: dict[str, Any] = {}

_open_producers: dict[int, Producer] = {}


class _Blocking:
    """Base of the three: an asynchronous client in a thread. Methods are forwarded by name."""

    _client_class: ClassVar[type[Any]]

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Check the settings and connect. Raise as the asynchronous client's constructor and `start`."""
        self._async = self._client_class(config, **doors)
        self._async.logs_lost_records = False
        self._thread: LoopThread | None = LoopThread(self._client_class.__name__.lower())
        self._closing = threading.Lock()
        self._closer = 0  # ident of the thread that closes
        self._closed = threading.Event()
        try:
            self._thread.run(self._async.start())
        except ConnectionError as error:
            self._thread.stop()
            raise error.with_traceback(None) from None
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

        Calls of other threads that wait end with RuntimeError. In a forked child it forgets the client and leaves the
        parent's alone. While another thread closes the client, wait for that, for the option `timeout_ms` at most;
        except in a delivery callback, for which that thread waits.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.is_forked:
            self._thread = None
            return
        if not self._closing.acquire(blocking=False):
            if threading.get_ident() != self._closer and not thread.callbacks.is_current():
                timeout_ms = options.get("timeout_ms")
                self._closed.wait(None if timeout_ms is None else timeout_ms / 1000)
            return
        self._closer = threading.get_ident()
        try:
            self._close(thread, options)
        finally:
            self._thread = None
            thread.stop()
            self._refuse_queued()
            self._closed.set()

    def _close(self, thread: LoopThread, options: dict[str, Any]) -> None:
        thread.run(self._async.close(**options))

    def _refuse_queued(self) -> None:
        """Refuse what was handed over while the loop's thread ended."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stand for the methods that `_forward` adds."""

    def _require_thread(self) -> LoopThread:
        thread = self._thread
        if thread is None:
            raise RuntimeError(f"the {self._client_class.__name__.lower()} is closed")
        thread.check()
        return thread


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
    AsyncProducer,
    _LIFECYCLE_METHODS
    | {
        "append",
        "fail",
        "flush_timeout",
        "raise_failure",
        "require_begun",
        "wait_for_memory",
        "wait_until_done",
    },
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
        self._uncalled: set[_DeliveryCallback] = set()
        _open_producers[id(self)] = self

    def close(self, **options: Any) -> None:
        """Send what waits, within the option `timeout_ms`, call the callbacks of all records, and close.

        Callbacks may send meanwhile: what they append is sent, too. Raise the first failure of a record without a
        future or callback. In a callback, do not wait for the callbacks behind it: they are called all the same.
        """
        _open_producers.pop(id(self), None)
        super().close(**options)

    def _flush_at_exit(self) -> None:
        """Send what waits while the process ends, within a bound, and say what became of it."""
        thread = self._thread
        if thread is None or thread.is_forked:
            return
        count = thread.call(self._waiting_records)
        if count:
            log.warning("producer not closed before the process ended records=%d", count)
        try:
            self.flush(_EXIT_FLUSH_MS)
        except Exception as error:  # noqa: BLE001  the process ends: all that is left is to say it
            left = thread.call(self._waiting_records)
            if left or not isinstance(error, TimeoutError):
                log.warning(
                    "records lost at the end of the process records=%d reason=%s", left, error
                )
        if self._uncalled:
            log.warning(
                "callbacks not called at the end of the process callbacks=%d", len(self._uncalled)
            )

    def waiting_records(self) -> int:
        """Return how many records were handed over and neither acknowledged nor given up."""
        return self._require_thread().call(self._waiting_records)

    def _waiting_records(self) -> int:
        taken: int = self._async.waiting_records()
        return len(self._queued) + taken

    def append(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        want_future: bool = False,
        callback: Callback | None = None,
    ) -> concurrent.futures.Future[RecordMetadata] | None:
        """Hand a record over without waiting for its delivery; with `want_future`, return a future.

        The thread takes records in bunches. Wait only when it is behind or `buffer.memory` is used up. What is
        wrong with a record is found in the thread. Its future and its callback get it; without both it is raised by
        the next `flush` or `close`; in a transaction by its commit, too.

        `callback(metadata, error)` is called once, in a thread for callbacks, with the record's place or with what
        went wrong. Raise RuntimeError for a closed producer, and outside of a transaction, where a transactional
        producer sends nothing; then no record was taken, and the callback is not called.
        """
        thread = self._require_thread()
        if self._is_transactional:
            self._async.require_begun()
        options = _NO_OPTIONS
        if partition is not None or timestamp_ms is not None or headers or callback is not None:
            options = {"partition": partition, "timestamp_ms": timestamp_ms, "headers": headers}
            if callback is not None:
                thread.callbacks.start()  # now: no thread can be started while the interpreter ends
                options["callback"] = _DeliveryCallback(thread, callback, self._uncalled)
        future: concurrent.futures.Future[RecordMetadata] | None = None
        if want_future:
            future = _DeliveryFuture(thread)
            future.set_running_or_notify_cancel()  # a record cannot be taken back
        if len(self._queued) >= _MAX_QUEUED:
            self._wait_for_space()
        self._queued.append((topic, value, key, options, future))
        if not self._is_draining:
            self._is_draining = True
            thread.start_soon(self._drain)
        if self._thread is None:  # closed meanwhile, and the loop's thread may have ended before
            self._refuse_queued()
        return future

    def _wait_for_space(self) -> None:
        with self._has_space:
            self._has_space.wait_for(
                lambda: len(self._queued) < _MAX_QUEUED or self._thread is None
            )
        self._require_thread()

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
                    self._fail(options, future, error)
                continue
            except Exception as error:  # noqa: BLE001  whatever is wrong belongs to the record's sender
                self._fail(options, future, error)
            handed_over.popleft()
        self._is_draining = False
        self._wake_callers()
        if handed_over and not self._is_draining:  # one came in between
            self._is_draining = True
            await self._take_queued()

    def _fail(
        self,
        options: Mapping[str, Any],
        future: concurrent.futures.Future[RecordMetadata] | None,
        error: Exception,
    ) -> None:
        callback = options.get("callback")
        if callback is not None:
            callback(None, error)
        if future is not None:
            future.set_exception(error)
        self._async.fail(error, is_watched=callback is not None or future is not None)

    def _wake_callers(self) -> None:
        with self._has_space:
            self._has_space.notify_all()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send all that was handed over, and wait until it is acknowledged and its callbacks have returned.

        Raise the first failure, since the last flush, of a record without a future or callback; TimeoutError after
        `timeout_ms`. In a callback, wait for acknowledgements only: callbacks are called one after the other.
        """
        thread = self._require_thread()
        deadline = _Deadline(thread, timeout_ms)
        failure = thread.run(self._wait_until_done(timeout_ms))
        is_called = thread.callbacks.wait(deadline.left_s())
        if failure is not None:
            raise failure
        if not is_called:
            raise TimeoutError(f"callbacks have not returned within {timeout_ms} ms")

    async def _wait_until_done(self, timeout_ms: int | None) -> Exception | None:
        """Wait for what was handed over, and return what `flush` raises. Raise TimeoutError."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._take_all()
                await self._async.wait_until_done()
        except TimeoutError:
            raise self._async.flush_timeout(self._waiting_records(), timeout_ms) from None
        try:
            self._async.raise_failure()
        except Exception as error:  # noqa: BLE001  the caller raises it
            return error
        return None

    def commit_transaction(self) -> None:
        """Take what was handed over, and commit as the asynchronous producer.

        The callbacks of all records of the transaction have returned before.
        """

        async def work() -> None:
            await self._take_all()
            await self._async.commit_transaction()

        self._run_with_callbacks(work())

    def _run_with_callbacks(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and wait for the callbacks of the records that it has waited for."""
        thread = self._require_thread()
        try:
            return thread.run(work)
        finally:
            thread.callbacks.wait()

    def prepare_transaction(self) -> PreparedTxnState | None:
        """Take what was handed over, and prepare as the asynchronous producer."""

        async def work() -> PreparedTxnState | None:
            await self._take_all()
            prepared: PreparedTxnState | None = await self._async.prepare_transaction()
            return prepared

        return self._run_with_callbacks(work())

    def abort_transaction(self) -> None:
        """Take what was handed over, which is dropped, and abort as the asynchronous producer."""

        async def work() -> None:
            await self._take_all()
            await self._async.abort_transaction()

        self._run_with_callbacks(work())

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

    def _close(self, thread: LoopThread, options: dict[str, Any]) -> None:
        """Send what waits and call callbacks, while these may send; then close, which calls those that are left."""
        deadline = _Deadline(thread, options.get("timeout_ms"))
        if (
            not self._is_transactional
        ):  # an open transaction is aborted: nothing needs to be sent before
            with suppress(TimeoutError):
                thread.run(self._wait_until_sent(deadline.left_ms()))
                thread.callbacks.wait(deadline.left_s())
        try:
            thread.run(self._close_async(options | {"timeout_ms": deadline.left_ms()}))
        finally:
            if not thread.callbacks.wait(deadline.left_s()):
                log.warning(
                    "producer closed before all callbacks were called callbacks=%d",
                    len(self._uncalled),
                )

    def _refuse_queued(self) -> None:
        error = RuntimeError("the producer is closed")
        with suppress(IndexError):  # what was appended meanwhile is refused by either thread
            while True:
                self._refuse(self._queued.popleft(), error)
        self._wake_callers()

    def _refuse(self, queued: tuple[Any, ...], error: Exception) -> None:
        topic, _, _, options, future = queued
        callback = options.get("callback")
        if callback is not None:
            callback.refuse(error)
        if future is not None:
            future.set_exception(error)
        elif callback is None:
            log.error("record not sent topic=%s reason=%s", topic, error)

    async def _wait_until_sent(self, timeout_ms: int | None) -> None:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._take_all()
            await self._async.wait_until_done()

    async def _close_async(self, options: dict[str, Any]) -> None:
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


class _Deadline:
    """The end of a call that may take `timeout_ms`, by the clock of a loop; None is no end."""

    def __init__(self, thread: LoopThread, timeout_ms: int | None) -> None:
        self._time = thread.loop.time
        self._end = None if timeout_ms is None else self._time() + timeout_ms / 1000

    def left_s(self) -> float | None:
        return None if self._end is None else max(self._end - self._time(), 0.0)

    def left_ms(self) -> int | None:
        left_s = self.left_s()
        return None if left_s is None else int(left_s * 1000)


class _DeliveryCallback:
    """A record's callback, called once in the thread for callbacks.

    Invariant: it is in `uncalled` until the user's function has returned.
    """

    __slots__ = ("_function", "_is_reported", "_thread", "_uncalled")

    def __init__(
        self, thread: LoopThread, function: Callback, uncalled: set[_DeliveryCallback]
    ) -> None:
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
