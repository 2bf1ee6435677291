"""Producer, consumer and admin client for programs without asyncio.

The same methods as in `kavka.client`, without `await`. Every client has a thread with a loop of its own; its
methods may be called from any thread. An exception is raised in the calling thread as the asynchronous method
raises it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from kavka.client.admin import Admin as AsyncAdmin
from kavka.client.consumer import Consumer as AsyncConsumer
from kavka.client.consumer import ConsumerRecord, FetchedBatches
from kavka.client.producer import BufferFull, PreparedTxnState, RecordMetadata
from kavka.client.producer import Producer as AsyncProducer
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_HANDED_OVER = 10_000
"""Records of `append` that wait for the loop's thread at most: then the caller waits."""


class LoopThread:
    """A thread that runs an event loop until `stop`."""

    def __init__(self, name: str) -> None:
        """Start."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its outcome; cancelling (Ctrl-C) cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in the thread and return its outcome."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    def stop(self) -> None:
        """End the loop and wait for the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


class _Blocking:
    """What the three have in common: an asynchronous client in a thread. Methods are forwarded by name."""

    _client_class: ClassVar[type[Any]]

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Check the settings and connect. Raise as the asynchronous client's constructor and `start`."""
        self._async = self._client_class(config, **doors)
        self._thread: LoopThread | None = LoopThread(f"kavka-{self._client_class.__name__.lower()}")
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
        """Close as the asynchronous client, and end the thread; calling it twice is allowed."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._close(options))
            finally:
                thread.stop()

    async def _close(self, options: dict[str, Any]) -> None:
        await self._async.close(**options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stand for the methods that `_forward` adds."""

    def _require_thread(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError(f"the {self._client_class.__name__.lower()} is closed")
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


_LIFE = frozenset({"start", "close"})


@_forward(AsyncProducer, _LIFE | {"append", "fail", "raise_failure", "require_begun", "room"})
class Producer(_Blocking):
    """`kavka.client.Producer` for threads: `send`, `append`, `send_many`, `send_table`, `flush`, transactions."""

    _client_class = AsyncProducer

    def __init__(self, config: Mapping[str, Any], **doors: Any) -> None:
        """Connect."""
        super().__init__(config, **doors)
        self._is_transactional = bool(config.get("transactional.id"))
        self._handed_over: deque[tuple[Any, ...]] = deque()
        self._is_draining = False
        self._turn = asyncio.Lock()  # for one drain at a time, whoever started it
        self._has_space = threading.Condition()
        self._drains: set[asyncio.Task[None]] = set()

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
        future: concurrent.futures.Future[RecordMetadata] | None = None
        if options.pop("want_future", False):
            future = concurrent.futures.Future()
            future.set_running_or_notify_cancel()  # a record cannot be taken back
        if len(self._handed_over) >= _MOST_HANDED_OVER:
            with self._has_space:
                self._has_space.wait_for(lambda: len(self._handed_over) < _MOST_HANDED_OVER)
        self._handed_over.append((topic, value, key, options, future))
        if not self._is_draining:
            self._is_draining = True
            asyncio.run_coroutine_threadsafe(self._drain(), thread.loop)
        return future

    async def _drain(self) -> None:
        async with self._turn:
            await self._take_handed_over()

    async def _take_handed_over(self) -> None:
        handed_over, append = self._handed_over, self._async.append
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
                    await self._async.room()
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
            await self._take_handed_over()

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
        while self._handed_over:
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
            log.warning("producer closed before all was taken records=%d", len(self._handed_over))
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


@_forward(AsyncConsumer, _LIFE | {"commit_soon", "go_back"})
class Consumer(_Blocking):
    """`kavka.client.Consumer` for threads; iterating gives records. Listeners are called in the client's thread."""

    _client_class = AsyncConsumer

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records for ever.

        Records are taken from the client one poll at a time. Positions move past all records of a poll at once, and
        back to the first one that was not reached when the iteration is left: commit outside of it.
        """
        while True:
            ahead: deque[FetchedBatches] = deque(self._poll())
            positions = {batches.at: batches.next_offset for batches in ahead}
            rows: list[ConsumerRecord] = []
            reached = 0
            try:
                while ahead:
                    rows, reached = ahead.popleft().records(), 0
                    for reached, row in enumerate(rows, 1):  # noqa: B007  read when the iteration is left
                        yield row
            except GeneratorExit:
                unread = {batches.at: batches.first_offset for batches in ahead}
                if reached < len(rows):
                    first = rows[reached]
                    unread[TopicPartition(first.topic, first.partition)] = first.offset
                self._rewind(unread, positions)
                raise

    def _rewind(
        self, unread: dict[TopicPartition, int], positions: dict[TopicPartition, int]
    ) -> None:
        """Go back to the first record of each partition that an iteration did not reach.

        It does not wait: the garbage collector may call it in any thread, and what is called later runs later.
        """
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._async.go_back, unread, positions)

    def _poll(self) -> Iterable[Any]:
        found: Iterable[Any] = self._require_thread().run(self._async.poll(1000))
        return found


@_forward(AsyncAdmin, _LIFE)
class Admin(_Blocking):
    """`kavka.client.Admin` for threads."""

    _client_class = AsyncAdmin
