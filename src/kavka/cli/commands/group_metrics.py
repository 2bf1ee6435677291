"""`kavka group-metrics`: lag, members and states of consumer groups for Prometheus, without a topic."""

from __future__ import annotations

import asyncio
import re
import sys

from kavka.cli.admin.connection import Unreachable, client_settings
from kavka.cli.arguments.options import BadValue, Given, Option, OptionSet
from kavka.collect.group_page import GroupPage
from kavka.collect.shutdown import run_until_signal
from kavka.metrics.server import MetricsServer
from kavka.settings.declaration import InvalidSetting

_PORT = 9308
_INTERVAL_S = 15.0

OPTIONS = OptionSet(
    "Serve the lag of consumer groups, in records and in seconds, for Prometheus until a signal.",
    Option("port", f"Port of the page ({_PORT}); 0 takes a free one.", "port"),
    Option("host", "Address of the page (127.0.0.1); it shows the names of groups.", "address"),
    Option("interval", f"Seconds between two readings ({_INTERVAL_S:g}).", "seconds"),
    Option("group", "A regular expression for the whole names of groups (all).", "pattern"),
)


def main(argv: list[str]) -> int:
    """Run the command: 0 after a signal, 1 when the page cannot be served."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    port, host = given.integer("port"), given.one("host") or "127.0.0.1"
    pattern, interval_s = _pattern(given), _interval_s(given)
    try:
        page = GroupPage(client_settings(given), pattern, _print_failure)
        server = MetricsServer(_PORT if port is None else port, page.families, host)
    except Unreachable as error:
        print(error, file=sys.stderr)
        return 1
    except (OSError, OverflowError) as error:
        print(f"the page cannot be served: {error}", file=sys.stderr)
        return 1
    with server:
        print(f"group metrics at http://{host}:{server.port}/metrics", flush=True)
        try:
            asyncio.run(_serve(page, interval_s))
        except InvalidSetting as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _print_failure(reason: str) -> None:
    print(f"groups not read: {reason}", file=sys.stderr, flush=True)


async def _serve(page: GroupPage, interval_s: float) -> None:
    await run_until_signal(lambda stop: page.run(stop, interval_s))


def _pattern(given: Given) -> re.Pattern[str]:
    text = given.one("group") or ".*"
    try:
        return re.compile(text)
    except re.error as error:
        raise BadValue(f"--group {text!r} is no regular expression: {error}") from None


def _interval_s(given: Given) -> float:
    text = given.one("interval")
    try:
        seconds = _INTERVAL_S if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise BadValue(f"--interval {text!r} is no number of seconds between 0.1 and 86400")
    return seconds
