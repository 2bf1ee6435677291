"""From the result of a handler to the bytes of a response, and the account of the request.

Large responses are encoded in slices of the loop's time (decision 029).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kavka.broker.requests.context import RequestContext, Responding
from kavka.broker.requests.counters import error_finder, error_steps
from kavka.broker.requests.deferred import DeferredResponse, LastResponse, SecondStage
from kavka.broker.requests.failures import RequestFailures
from kavka.broker.requests.large_requests import Encoding, encode_slice, release_records
from kavka.broker.requests.pace import Pace, Slices
from kavka.broker.requests.pending_requests import PendingRequests
from kavka.broker.requests.policies import Quota
from kavka.wire.apis import ApiKey
from kavka.wire.frame import (
    EncodedResponse,
    encode_response,
    encode_response_in_slices,
    with_throttle_time,
)


class Responses:
    """Sends what handlers return, now or when it is there, and counts it."""

    def __init__(
        self,
        failures: RequestFailures,
        note_work: Callable[[Responding], None],
        tick_ms: Callable[[], int],
        slices: Slices,
        max_bytes: int,
        *,
        records_times: bool,
    ) -> None:
        """Send no response of more than `max_bytes`; measure times if `records_times`."""
        self._failures = failures
        self._tick_ms = tick_ms
        self._slices = slices
        self._max_bytes = max_bytes
        self._records_times = records_times
        self.quota: Quota | None = None
        """Throttles responses; None for the trivial policy."""
        self.pending = PendingRequests(self.deliver, failures, note_work, tick_ms)

    def deliver(self, context: RequestContext, result: Any) -> None:
        """Send what a handler returned, or wait for it."""
        kind = type(result)
        if kind is EncodedResponse:
            if self.quota is not None:
                self._throttle(self.quota, context, result)
            context.connection.respond(context.slot, (result,) if result else ())
            if context.large is not None:
                context.finish()
        elif kind is context.api.response:
            if self.quota is not None:
                self._throttle(self.quota, context, result)
            self._encode(context, result)
        else:
            self._wait(context, result)
            return
        if self._records_times:
            took_ms = self._tick_ms() - context.received_ms
            if took_ms:
                _account(context, took_ms)
            else:
                context.api.immediate.recent[0] += 1  # nearly always, so without another call

    def _wait(
        self, context: RequestContext, result: SecondStage | DeferredResponse | LastResponse
    ) -> None:
        if isinstance(result, LastResponse):
            self.deliver(context, result.response)
            context.connection.close()
            return
        if self._records_times and context.local_ms < 0:
            context.local_ms = self._tick_ms() - context.received_ms
        if context.large is not None and context.api.is_parallel:
            context.unblock_connection()  # a Produce that is not appended yet blocks it itself
        if isinstance(result, SecondStage):
            self.pending.run(context, result)
        else:
            self.pending.defer(context, result)

    def _throttle(self, quota: Quota, context: RequestContext, response: Any) -> None:
        """Write the throttle time into a response, and mute its connection behind it."""
        throttle_ms = max(context.throttle_ms, quota.response_throttle_ms(context, response))
        if throttle_ms <= 0:
            return
        if isinstance(response, EncodedResponse):
            if response:
                with_throttle_time(response, context.api.response, context.version, throttle_ms)
        elif hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        context.api.traffic.record_throttled(throttle_ms)
        state = context.connection.attachment
        if state.is_open:
            state.mute(context.connection, asyncio.get_running_loop(), throttle_ms)

    # -- encoding

    def _encode(self, context: RequestContext, response: Any) -> None:
        api, header, large = context.api, context.header, context.large
        if large is not None and large.memory:
            step = self._encode_later(context, response)
            self.pending.run_step(context, step, partial(_release, context, response))
            return
        if api.may_respond_large or context.is_paced:
            self._encode_in_slices(context, response)
            return
        _count_errors(context, response)
        try:
            parts = encode_response(response, header.api_version, header.correlation_id)
        except Exception as error:  # noqa: BLE001 - a fault in one response must not end the broker
            _release(context, response)
            self._failures.malformed(context, error)
            return
        context.connection.respond(context.slot, parts)

    async def _encode_later(self, context: RequestContext, response: Any) -> None:
        """Encode the response of a request that took long, in a later iteration of the loop."""
        await context.pace.rest()
        self._encode_in_slices(context, response)

    def _encode_in_slices(self, context: RequestContext, response: Any) -> None:
        """Respond now, or in later iterations of the loop when there is much to encode."""
        header, pace = context.header, self._slices.pace()
        steps = encode_response_in_slices(response, header.api_version, header.correlation_id)
        try:
            parts = encode_slice(steps, pace, context.api.key, self._max_bytes)
        except Exception as error:  # noqa: BLE001 - as above
            _release(context, response)
            self._failures.malformed(context, error)
            return
        if parts is None:
            step = self._encode_on(context, response, steps, pace)
            self.pending.run_step(context, step, partial(_release, context, response))
            return
        _count_errors(context, response)
        context.connection.respond(context.slot, parts)
        context.finish()

    async def _encode_on(
        self, context: RequestContext, response: Any, steps: Encoding, pace: Pace
    ) -> None:
        while True:
            await pace.rest()
            if not context.connection.is_open:
                _release(context, response)
                context.finish()
                return
            parts = encode_slice(steps, pace, context.api.key, self._max_bytes)
            if parts is not None:
                await _count_errors_in_slices(context, response, pace)
                context.connection.respond(context.slot, parts)
                context.finish()
                return


def _account(context: RequestContext, took_ms: int) -> None:
    if context.local_ms >= 0:
        context.api.traffic.record_delayed(took_ms, context.local_ms)
    else:
        context.api.immediate.record(took_ms)


def _release(context: RequestContext, response: Any) -> None:
    """Release the files of a response that is not sent: only one to a Fetch has any."""
    if context.api.key is ApiKey.FETCH:
        release_records(response)


def _count_errors(context: RequestContext, response: Any) -> None:
    find_errors = error_finder(context.api.response)
    if find_errors is not None:
        find_errors(response, context.api.traffic.count_error)


async def _count_errors_in_slices(context: RequestContext, response: Any, pace: Pace) -> None:
    """Count the errors of a response that was encoded in slices: it may have a million of them."""
    steps = error_steps(context.api.response)
    if steps is None:
        return
    for _ in steps(response, context.api.traffic.count_error):
        if pace.is_over():
            await pace.rest()
