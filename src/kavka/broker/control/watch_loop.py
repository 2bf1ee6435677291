"""A watch loop: part of the registry is read again whenever a watch reports a change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kavka.core.znodes import Event


class WatchLoop:
    """A task that reads the registry once for all changes reported meanwhile, and retries after a failure."""

    def __init__(
        self,
        read: Callable[[], Awaitable[None]],
        log: logging.Logger,
        failure_message: str,
        *,
        retry_s: float = 0.5,
        expected_errors: tuple[type[Exception], ...] = (ConnectionError,),
        expected_error_level: int = logging.WARNING,
    ) -> None:
        """Read nothing before `start`; a failure is logged with its message, expected errors without traceback."""
        self._read = read
        self._log = log
        self._failure_message = failure_message
        self._retry_s = retry_s
        self._expected_errors = expected_errors
        self._expected_error_level = expected_error_level
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read whenever `notify` is called from now on, and at once if it was called before."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def notify(self, _event: Event | None = None) -> None:
        """Schedule a read: a watch fired, or is gone with its session."""
        self._changed.set()

    async def _run(self) -> None:
        log = self._log
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except self._expected_errors as error:
                log.log(self._expected_error_level, "%s reason=%s", self._failure_message, error)
            except Exception:
                # A node that cannot be read, or a bug: without another read later changes would be missed.
                log.exception(self._failure_message)
            else:
                continue
            await asyncio.sleep(self._retry_s)
            self._changed.set()
