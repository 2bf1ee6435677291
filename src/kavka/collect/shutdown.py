"""Graceful shutdown of a collector: a signal lets it commit the open transaction, then it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP_S = 15.0
"""Time that the last transaction may take after a signal; an unfinished one is sent again at the next start."""


class ShutdownTimeout(Exception):
    """The last transaction was not committed in time after a signal."""


async def run_until_signal(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `work` with an event that SIGTERM, SIGINT and SIGHUP set; ignored signals stay ignored.

    Raise the errors of `work`, and ShutdownTimeout.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, stop.set)
    work_task = loop.create_task(work(stop))
    stop_task = loop.create_task(stop.wait())
    try:
        await asyncio.wait((work_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        done, _ = await asyncio.wait((work_task,), timeout=STOP_S)
        if not done:
            work_task.cancel()
            await asyncio.wait((work_task,), timeout=STOP_S)
            raise ShutdownTimeout("The brokers have not committed the last transaction in time.")
        await work_task
    finally:
        stop_task.cancel()
        for number in handled:
            loop.remove_signal_handler(number)
