"""Routes a request to the broker that can answer it, and retries on another when that was the wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from kavka.client import arguments
from kavka.client.cluster import Cluster, CoordinatorKind
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId
from kavka.net.peer import Peer
from kavka.wire.codec import CorruptFrame

T = TypeVar("T")

Build = Callable[[Peer], tuple[Any, int | None]]
"""Makes the request for a connection, and its version if it must be a certain one."""
Codes = Callable[[Any], Iterable[int]]
"""Returns the error codes in a response that say whether the request must be repeated."""


class Router:
    """The retries of the admin client. `retriable` is by code, as in the Java client."""

    def __init__(self, cluster: Cluster, retries: int, timeout_ms: int) -> None:
        """Take `retries` and `default.api.timeout.ms`."""
        self.cluster = cluster
        self._retries = retries
        self._timeout_ms = timeout_ms

    def timeout_ms(self, given: int | None) -> int:
        """Return the bound of a call. Raise TypeError, ValueError for what is none."""
        return self._timeout_ms if given is None else int(arguments.timeout(given))

    async def any(self, build: Build, codes: Codes, timeout_ms: int | None = None) -> Any:
        """Ask the least loaded broker."""
        return await self._repeat(self.cluster.any_peer, build, codes, timeout_ms)

    async def controller(self, build: Build, codes: Codes, timeout_ms: int | None = None) -> Any:
        """Ask the controller; it is looked up again when it has moved."""
        return await self._repeat(self.cluster.controller, build, codes, timeout_ms)

    async def controller_each(
        self,
        names: Iterable[str],
        build: Callable[[Peer, list[str]], tuple[Any, int | None]],
        outcomes: Callable[[Any], Mapping[str, tuple[int, Any]]],
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Ask the controller about several things; only those that it could not take yet are asked about again.

        `outcomes` takes a response apart into (error code, outcome) by name. Raise only when nothing was answered.
        """
        left = list(names)
        found: dict[str, Any] = {}

        def codes(response: Any) -> Iterable[int]:
            got = outcomes(response)
            found.update((name, outcome) for name, (_, outcome) in got.items())
            again = {n: code for n, (code, _) in got.items() if ErrorCode.of(code) in _NOT_YET}
            if again:
                left[:] = again
            return again.values()

        try:
            await self.controller(lambda peer: build(peer, left), codes, timeout_ms)
        except (KafkaError, OSError, CorruptFrame):
            if not found:
                raise  # else the refusals stand that came last
        return found

    async def broker(
        self, broker_id: BrokerId, build: Build, codes: Codes, timeout_ms: int | None = None
    ) -> Any:
        """Ask one broker."""
        return await self._repeat(lambda: self.cluster.peer(broker_id), build, codes, timeout_ms)

    async def each_broker(
        self,
        build: Build,
        timeout_ms: int | None = None,
        failures: dict[BrokerId, Exception] | None = None,
    ) -> dict[BrokerId, Any]:
        """Ask every broker. Raise the first refusal or failure.

        With `failures`, those of single brokers are put there, and raised only where no broker has answered.
        """
        await self.cluster.refresh()
        brokers = list(self.cluster.metadata.brokers)
        outcomes = await self.gather(
            (b, self.broker(b, build, lambda a: (a.error_code,), timeout_ms)) for b in brokers
        )
        answers: dict[BrokerId, Any] = {}
        failed: dict[BrokerId, Exception] = {}
        for broker_id, outcome in outcomes.items():
            error = outcome if isinstance(outcome, Exception) else refusal(outcome.error_code)
            if error is None:
                answers[broker_id] = outcome
            else:
                failed[broker_id] = error
        if failed and (failures is None or not answers):
            raise next(iter(failed.values()))
        if failures is not None:
            failures.update(failed)
        return answers

    async def coordinator(
        self,
        key: str,
        build: Build,
        codes: Codes,
        timeout_ms: int | None = None,
        kind: CoordinatorKind = CoordinatorKind.GROUP,
    ) -> Any:
        """Ask the coordinator of a group or transactional id; it is looked up again when it has moved."""

        async def find() -> Peer:
            return await self.cluster.peer(await self.cluster.find_coordinator(key, kind))

        return await self._repeat(find, build, codes, timeout_ms)

    async def _repeat(
        self,
        find: Callable[[], Awaitable[Peer]],
        build: Build,
        codes: Codes,
        timeout_ms: int | None,
    ) -> Any:
        limit_ms = self.timeout_ms(timeout_ms)
        last: Exception | None = None
        attempt = 0
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        response = await self._send_once(find, build, codes)
                    except KafkaError as error:
                        last = error
                        if not error.retriable or attempt >= self._retries:
                            raise
                    except (OSError, CorruptFrame) as error:
                        last = error
                        if attempt >= self._retries:
                            raise
                    else:
                        return response
                    self.cluster.mark_stale()
                    await self.cluster.back_off(attempt)
                    attempt += 1
        except TimeoutError:
            reason = f": {last}" if last is not None and not isinstance(last, TimeoutError) else ""
            raise TimeoutError(f"no answer in {limit_ms} ms{reason}") from last

    async def _send_once(
        self, find: Callable[[], Awaitable[Peer]], build: Build, codes: Codes
    ) -> Any:
        peer = await find()
        request, version = build(peer)
        response = await peer.send(request, version, timeout_ms=self.cluster.request_timeout_ms)
        for number in codes(response):
            code = ErrorCode.of(number)
            if code in _WRONG_BROKER:
                if code is ErrorCode.NOT_CONTROLLER:
                    await self.cluster.refresh()
                raise KafkaError(code)
        return response

    async def gather(self, calls: Iterable[tuple[T, Awaitable[Any]]]) -> dict[T, Any]:
        """Run calls side by side; return what each gave, or its error as a value."""
        pairs = list(calls)
        outcomes = await asyncio.gather(*(call for _, call in pairs), return_exceptions=True)
        found: dict[T, Any] = {}
        for (name, _), outcome in zip(pairs, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(
                outcome, KafkaError | OSError | CorruptFrame
            ):
                raise outcome
            found[name] = outcome
        return found


_NOT_YET = (ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
"""Errors of single items that are retried; all others are outcomes, as in the Java client."""
_WRONG_BROKER = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


def plain(request: Any) -> Build:
    """Send this request in the newest version."""
    return lambda peer: (request, None)


def refusal(code: int, message: str | None = None, about: str | None = None) -> KafkaError | None:
    """Return the error that a code stands for, None for none."""
    error = ErrorCode.of(code)
    if error is ErrorCode.NONE:
        return None
    if not message and about is not None:
        message = f"{about}: {error.message}"
    return KafkaError(error, message or None)
