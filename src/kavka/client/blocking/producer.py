"""The blocking producer: records are handed over to the loop's thread in a queue."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kavka.client.arguments import timeout_s
from kavka.client.blocking.client import LIFECYCLE_METHODS, BlockingClient, forward
from kavka.client.blocking.delivery import Deadline, DeliveryCallback, DeliveryFuture, copy_outcome
from kavka.client.blocking.loop_thread import LoopThread
from kavka.client.producer import BufferFull, PreparedTxnState, RecordMetadata
from kavka.client.producer import Producer as AsyncProducer
from kavka.client.producer.batch import Callback, Headers
from kavka.client.producer.records import checked_callback
from kavka.io import Clock, Network, Random

if TYPE_CHECKING:
    from kavka.client.blocking.signatures import ProducerMethods
else:
    ProducerMethods = object  # the methods that `forward` adds

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_QUEUED = 10_000
"""Records of `append` that wait for the loop's thread at most: then the caller waits."""

_EXIT_FLUSH_MS = 5_000
"""Maximum milliseconds for which the end of the process waits for records of a producer that was not closed."""

_NO_OPTIONS: dict[str, Any] = {}

_open_producers: dict[int, Producer] = {}


@forward(
    AsyncProducer,
    LIFECYCLE_METHODS
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
class Producer(BlockingClient, ProducerMethods):
    """`kavka.client.Producer` for threads: `send`, `append`, `send_many`, `send_table`, `flush`, transactions."""

    _client_class = AsyncProducer

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Connect."""
        super().__init__(config, network=network, clock=clock, random=random)
        self._is_transactional = bool(config.get("transactional.id"))
        self._queued: deque[tuple[Any, ...]] = deque()
        self._is_draining = False
        self._drain_lock = asyncio.Lock()  # for one drain at a time
        self._has_space = threading.Condition()
        self._drains: set[asyncio.Task[None]] = set()
        self._uncalled: set[DeliveryCallback] = set()
        _open_producers[id(self)] = self

    def close(self, timeout_ms: int | None = None) -> None:
        """Send what waits, within `timeout_ms`, call the callbacks of all records, and close.

        Callbacks may send meanwhile: what they append is sent, too. Raise the first failure of a record without a
        future or callback. In a callback, do not wait for the callbacks behind it: they are called all the same.
        """
        timeout_s(timeout_ms)  # it raises for what is no time
        _open_producers.pop(id(self), None)
        self._close_once({} if timeout_ms is None else {"timeout_ms": timeout_ms})

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
                checked_callback(callback)
                thread.callbacks.start()  # now: no thread can be started while the interpreter ends
                options["callback"] = DeliveryCallback(thread, callback, self._uncalled)
        future: concurrent.futures.Future[RecordMetadata] | None = None
        if want_future:
            future = DeliveryFuture(thread)
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
                        wanted.add_done_callback(copy_outcome(future))
            except BufferFull:
                self._wake_callers()
                try:
                    await self._async.wait_for_memory()
                except TimeoutError as error:
                    handed_over.popleft()
                    self._fail(options, future, error)
                continue
            except Exception as error:  # noqa: BLE001  any error belongs to the record's sender
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
        timeout_s(timeout_ms)  # it raises for what is no time
        deadline = Deadline(thread, timeout_ms)
        failure = thread.run(self._wait_until_done, timeout_ms)
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

        self._run_with_callbacks(work)

    def _run_with_callbacks(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
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

        return self._run_with_callbacks(work)

    def abort_transaction(self) -> None:
        """Take what was handed over, which is dropped, and abort as the asynchronous producer."""

        async def work() -> None:
            await self._take_all()
            await self._async.abort_transaction()

        self._run_with_callbacks(work)

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
        """Take what was handed over. A caller that gives up waiting does not stop it: others wait for the same."""
        while self._queued:
            task = asyncio.create_task(self._drain())
            self._drains.add(task)
            task.add_done_callback(self._drains.discard)
            await asyncio.shield(task)

    def _close(self, thread: LoopThread, options: dict[str, Any]) -> None:
        """Send what waits and call callbacks, while these may send; then close, which calls those that are left."""
        deadline = Deadline(thread, options.get("timeout_ms"))
        if (
            not self._is_transactional
        ):  # an open transaction is aborted: nothing needs to be sent before
            try:
                thread.run(self._wait_until_sent, deadline.left_ms())
                thread.callbacks.wait(deadline.left_s())
            except TimeoutError:
                pass  # what is left is failed below
            except BaseException:  # Ctrl-C
                self._give_up(thread)
                raise
        try:
            thread.run(self._close_async, options | {"timeout_ms": deadline.left_ms()})
        finally:
            if not thread.callbacks.wait(deadline.left_s()):
                log.warning(
                    "producer closed before all callbacks were called callbacks=%d",
                    len(self._uncalled),
                )

    def _give_up(self, thread: LoopThread) -> None:
        """Fail what waits, and call the callbacks, for a second at most: the caller of `close` waits no longer."""
        with suppress(
            Exception
        ):  # the failure of a record, which is logged; an interruption is being raised
            thread.run(self._close_async, {"timeout_ms": 0})
        thread.callbacks.wait(1)

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
            await self._drain()  # what is left is refused
        self._async.raise_failure()


def _flush_open_producers() -> None:
    for producer in list(_open_producers.values()):
        producer._flush_at_exit()


atexit.register(_flush_open_producers)
