"""Runs a collector until a signal: what is under way is committed, then it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP_S = 15.0
"""Time that a transaction may take after the signal; then the collector ends without it, and sends it at its start."""


class StoppedHard(Exception):
    """The last transaction was not committed in time after a signal."""


async def run_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `work` with an event that SIGTERM, SIGINT and SIGHUP set; ignored signals stay ignored.

    Raise what `work` raises, and StoppedHard.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    watched = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in watched:
        loop.add_signal_handler(number, stop.set)
    working = loop.create_task(work(stop))
    stopping = loop.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        done, _ = await asyncio.wait((working,), timeout=STOP_S)
        if not done:
            working.cancel()
            await asyncio.wait((working,), timeout=STOP_S)
            raise StoppedHard("The brokers have not committed the last transaction in time.")
        await working
    finally:
        stopping.cancel()
        for number in watched:
            loop.remove_signal_handler(number)
