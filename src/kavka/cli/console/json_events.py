"""Events of the verifiable tools: JSON lines on standard output, in the form of Kafka's, as system tests read them."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from kavka.cli.arguments.options import BadValue
from kavka.cli.text.stored_json import compact
from kavka.cli.text.times import current_time_ms
from kavka.errors import KafkaError
from kavka.settings.declaration import InvalidSetting

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a tool that SIGTERM ended after it had closed its client, as Java's."""


def run_tool(
    parser: argparse.ArgumentParser,
    arguments: list[str],
    run: Callable[[argparse.Namespace], Coroutine[Any, Any, int]],
) -> int:
    """Run a verifiable tool and return its exit code; without arguments it explains itself, and returns 0.

    `run` may raise BadValue, InvalidSetting, ConnectionError, KafkaError: they are printed, and the code is 1.
    """
    if not arguments:
        parser.print_help()
        return 0
    given = parser.parse_args(arguments)
    try:
        return asyncio.run(run(given))
    except (BadValue, InvalidSetting, ConnectionError, KafkaError) as error:
        print(error, file=sys.stderr)
        return 1


def print_event(name: str, /, **fields: Any) -> None:
    """Print an event with the present time, in milliseconds since the epoch, and its fields in their order."""
    event = {"timestamp": current_time_ms(), "name": name, **fields}
    print(compact(event), flush=True)


@contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and SIGINT set while the block runs, instead of ending the process.

    Requires a running event loop in the main thread.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
