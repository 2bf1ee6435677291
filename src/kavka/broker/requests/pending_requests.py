"""Pending requests: their response is not ready in the iteration of the loop in which they are handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.broker.requests.context import RequestContext, Responding
from kavka.broker.requests.deferred import DeferredResponse, SecondStage
from kavka.broker.requests.failures import RequestFailures
from kavka.broker.requests.pace import SLICE_MS
from kavka.net.connection import Connection
from kavka.wire.apis import ApiKey

T = TypeVar("T")
Deliver = Callable[[RequestContext, Any], None]
"""Take the result of a request."""


class PendingRequests:
    """Second stages, deferred responses and the steps of large requests, each until it is done or given up."""

    def __init__(
        self,
        deliver: Deliver,
        failures: RequestFailures,
        note_work: Callable[[Responding], None],
        tick_ms: Callable[[], int],
    ) -> None:
        """Take `deliver`, called with each result, and `note_work`, which names work for stalls of the loop."""
        self._deliver = deliver
        self._failures = failures
        self._note_work = note_work
        self._tick_ms = tick_ms
        # Dicts, not sets: the order in which they are cancelled can be seen.
        self.tasks: dict[asyncio.Future[Any], RequestContext] = {}
        """The second stages, and the steps of large requests."""
        self._woken: dict[Connection, deque[DeferredResponse]] = {}
        # Those before them, which the time of an iteration was too short for.
        self._responding: dict[Connection, deque[DeferredResponse]] = {}
        self._is_scheduled = False
        self.is_held = False
        """True while requests are handled: `end_hold` follows, and says when to answer what they wake."""

    # -- second stages

    def run(self, context: RequestContext, stage: SecondStage) -> None:
        """Continue with a request in a task, and deliver its result."""
        api, connection = context.api, context.connection
        task = asyncio.ensure_future(_timed(stage.work, context))
        self.tasks[task] = context
        waiting = connection.attachment.waiting
        if api.key is ApiKey.FETCH:
            waiting[task] = None
        elif api.awaits_members:
            connection.release(context.slot)
            context.begin_wait()
        else:
            context.slot.outlives_connection = True
        if context.large is not None and not api.is_parallel:
            context.block_connection()

        def done(finished: asyncio.Future[Any]) -> None:
            self.tasks.pop(finished, None)
            waiting.pop(finished, None)
            self._note_work(Responding(context, self._tick_ms()))
            connection.release(context.slot)
            if finished.cancelled():
                if stage.release is not None:
                    stage.release()
                connection.abort()
                context.finish()
            elif (error := finished.exception()) is not None:
                self._failures.failed(context, error)
            else:
                if context.loop_time is not None:
                    context.loop_time.resume()
                self._deliver(context, finished.result())
                context.end_stage()

        task.add_done_callback(done)

    def run_step(
        self,
        context: RequestContext,
        step: Coroutine[Any, Any, None],
        release: Callable[[], None] | None = None,
        *,
        ends_with_connection: bool = False,
    ) -> None:
        """Run a step of a large request: its decoding, or the encoding of its response.

        It answers by itself; if it fails or is cancelled, `release` is called and the request given up.
        """
        task = asyncio.ensure_future(_timed(step, context))
        self.tasks[task] = context
        waiting = context.connection.attachment.waiting
        if ends_with_connection:
            waiting[task] = None

        def done(finished: asyncio.Future[None]) -> None:
            self.tasks.pop(finished, None)
            waiting.pop(finished, None)
            error = None if finished.cancelled() else finished.exception()
            if release is not None and (finished.cancelled() or error is not None):
                release()
            if finished.cancelled():
                context.connection.abort()
                context.finish()
            elif error is not None:
                self._failures.failed(context, error)

        task.add_done_callback(done)

    # -- deferred responses

    def defer(self, context: RequestContext, deferred: DeferredResponse) -> None:
        """Keep a deferred response with its connection until it is woken; what waits keeps no frame."""
        connection = context.connection
        state = connection.attachment
        if not state.is_open:  # it was closed while the request was handled in slices
            deferred.cancel()
            context.finish()
            return
        deferred.context = context
        state.waiting[deferred] = None
        connection.release(context.slot)
        if context.large is not None and context.large.memory:
            context.large.memory_to_build = context.large.memory
            context.finish()
        deferred.call_on_wake(self._wake)

    def _wake(self, deferred: DeferredResponse) -> None:
        connection = deferred.context.connection
        woken = self._woken.get(connection)
        if woken is None:
            woken = self._woken[connection] = deque()
            self._schedule()
        woken.append(deferred)

    def end_hold(self, *, responds_now: bool) -> None:
        """Answer what was woken since requests are handled: now, or in the next iteration of the loop."""
        self.is_held = False
        if self._woken:
            if responds_now and not self._is_scheduled:
                self._respond_woken()
            else:
                self._schedule()

    def _schedule(self) -> None:
        if not (self._is_scheduled or self.is_held):
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._respond_woken)

    def _respond_woken(self) -> None:
        """Answer for a slice of the loop's time: one batch may have woken thousands of requests.

        One connection after the other: a client continues while the next one's response is built.
        """
        self._is_scheduled = False
        if not self._responding:
            self._responding, self._woken = self._woken, {}
        end_ms = self._tick_ms() + SLICE_MS
        try:
            while self._responding:
                connection = next(iter(self._responding))
                woken = self._responding.pop(connection)
                is_over = self._respond_all(connection, woken, end_ms)
                if woken:
                    self._responding[connection] = woken
                if is_over:
                    break
        finally:
            if self._responding or self._woken:
                self._schedule()

    def _respond_all(
        self, connection: Connection, woken: deque[DeferredResponse], end_ms: int
    ) -> bool:
        """Answer what was woken of a connection until the time is over; return whether it is."""
        connection.cork()
        try:
            while woken:
                deferred = woken.popleft()
                if not deferred.is_done:
                    self._respond(deferred)
                if self._tick_ms() >= end_ms:
                    return True
        finally:
            connection.uncork()
        return False

    def _respond(self, deferred: DeferredResponse) -> None:
        context = deferred.context
        context.connection.attachment.waiting.pop(deferred, None)
        if context.large is not None and context.large.memory_to_build:
            self.run(context, SecondStage(_build_within_memory(context, deferred)))
            return
        if context.loop_time is not None:
            context.loop_time.resume()
        try:
            self._deliver(context, deferred.take())
        except Exception as error:  # noqa: BLE001 - a fault in one response must not end those behind it
            self._failures.failed(context, error)
        if context.loop_time is not None:
            context.end_stage()

    def stop(self) -> None:
        """Cancel every response that has a task."""
        for task in list(self.tasks):
            task.cancel()


def _timed(work: Coroutine[Any, Any, T], context: RequestContext) -> Coroutine[Any, Any, T]:
    """Return work that runs the stopwatch of a request whose time is charged."""
    if context.loop_time is None:
        return work
    from kavka.broker.requests.loop_time import TimedWork  # only where there is such a quota

    return TimedWork(work, context.loop_time)


async def _build_within_memory(context: RequestContext, deferred: DeferredResponse) -> Any:
    """Build the response of a large request once there is memory for it again."""
    assert context.large is not None
    await context.large.take_memory(context.large.memory_to_build)
    result = deferred.take()
    return await result if isinstance(result, SecondStage) else result
