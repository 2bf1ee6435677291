"""A broker looks at something of the registry again, whenever a watch says that it may have changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kavka.core.znodes import Event


class Looking:
    """A task that looks once for all that was told meanwhile, and tries again after a failure."""

    def __init__(
        self,
        look: Callable[[], Awaitable[None]],
        log: logging.Logger,
        failed: str,
        *,
        retry_s: float = 0.5,
        passing: tuple[type[Exception], ...] = (ConnectionError,),
        passing_level: int = logging.WARNING,
    ) -> None:
        """Look at nothing before `start`; `failed` is what the log says then, without trace for what is `passing`."""
        self._look = look
        self._log = log
        self._failed = failed
        self._retry_s = retry_s
        self._passing = passing
        self._passing_level = passing_level
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look whenever `again` is called from now on, and at once if it was before."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def again(self, _event: Event | None = None) -> None:
        """Look soon: a watch has told, or is gone with its session."""
        self._told.set()

    async def _follow(self) -> None:
        log = self._log
        while True:
            await self._told.wait()
            self._told.clear()
            try:
                await self._look()
            except self._passing as error:
                log.log(self._passing_level, "%s reason=%s", self._failed, error)
            except Exception:
                # A node that cannot be read, or a fault of ours: whoever looks no more never learns of a change again.
                log.exception(self._failed)
            else:
                continue
            await asyncio.sleep(self._retry_s)
            self._told.set()
