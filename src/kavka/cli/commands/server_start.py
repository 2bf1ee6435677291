"""`kavka server-start [-daemon] [server.properties] [--override name=value]...`: one broker in this process.

With `--workers N` this process is the supervisor of N brokers.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from kavka.cli.server.process import (
    UsageError,
    keep_out_of_core_dumps,
    listen_for_signals,
    log_to_stderr,
    raise_descriptor_limit,
    read_settings,
    start_daemon,
    start_unless_stopped,
    wait_for_stop,
    warn_of_readers,
)
from kavka.net.event_loop import MeasuredEventLoop
from kavka.settings.declaration import InvalidSetting

if TYPE_CHECKING:
    from kavka.broker.configs.endpoints import Endpoint
    from kavka.cli.server.console_process import ConsoleProcess

log = logging.getLogger("kavka")

MAX_WORKERS = 1_000

_USAGE = """usage: kavka server-start [-daemon] [--workers N] [server.properties] [--override property=value]...
       kavka server-start --version

Without a file the broker serves 127.0.0.1:9092 and keeps its data in /tmp/kafka-logs.
A port of 0 takes a free one; the line printed on standard output names it.

-daemon      serves in the background. The log is server.log and standard error kafkaServer.out, in the directory
             LOG_DIR, by default logs in the current directory; KAVKA_LOG_FILE names another file for the log.
--workers N  runs N brokers on this machine and starts again what dies. Worker i has broker.id + i, the ports of the
             listeners + i, and in each of log.dirs the subdirectory worker-i (or the path with {worker} replaced by i);
             broker.rack is the machine's name. Without zookeeper.connect they share a registry on loopback."""


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a clean stop, 1 when the broker could not start or had to end."""
    started = time.monotonic()
    if any(word in ("-h", "--help") for word in arguments):
        print(_USAGE)
        return 0
    if "--version" in arguments:
        from kavka import __version__

        print(__version__)
        return 0
    try:
        workers, others = _workers(arguments)
        settings, is_daemon = read_settings(others, _USAGE)
    except UsageError as error:
        return _failed(str(error))
    if is_daemon:
        return start_daemon("server-start", arguments, ("server.log", "kafkaServer.out"))
    try:
        settings = _with_login(settings)
    except InvalidSetting as error:
        return _failed(str(error))
    refusal = _refusal_of_console(settings, workers)
    if refusal is not None:
        return _failed(refusal)
    keep_out_of_core_dumps()
    raise_descriptor_limit()
    log_to_stderr(settings.get("kavka.log.level", "INFO"), os.environ.get("KAVKA_LOG_FILE"))
    if workers is None:
        warn_of_readers(others, settings)
        with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
            return runner.run(_serve(settings, started))
    return _supervise(settings, workers, others, started)


def _with_login(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with the login to ZooKeeper that KAFKA_OPTS names, unless they have one.

    Raise InvalidSetting for a file that cannot be read.
    """
    is_own = "zookeeper.connect" not in settings or "kavka.zookeeper.jaas.file" in settings
    if is_own or "KAFKA_OPTS" not in os.environ:
        return settings
    from kavka.registry.jaas_files import settings_of_environment

    return {**settings_of_environment(os.environ), **settings}


def _workers(arguments: list[str]) -> tuple[int | None, list[str]]:
    """Return how many workers are asked for, if any are, and the other arguments. Raise BadUsage."""
    workers: int | None = None
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name != "--workers":
            others.append(word)
            if word == "--override":
                others.extend(itertools.islice(words, 1))
            continue
        given = value if equals else next(words, "")
        if not given.isdecimal() or not 1 <= int(given) <= MAX_WORKERS:
            raise UsageError(f"--workers needs a number from 1 to {MAX_WORKERS}, not {given!r}")
        workers = int(given)
    return workers, others


def _supervise(settings: dict[str, str], workers: int, arguments: list[str], started: float) -> int:
    from kavka.cli.server.supervisor import supervise
    from kavka.cli.server.workers import WorkerSettings

    if "node.id" in settings or "process.roles" in settings:
        return _failed("--workers numbers brokers by broker.id: remove node.id and process.roles")
    try:
        shared_out = WorkerSettings(settings, workers)
    except InvalidSetting as error:
        return _failed(str(error))
    return asyncio.run(supervise(shared_out, arguments, started))


async def _serve(settings: dict[str, str], started: float) -> int:
    from kavka.broker.broker import Broker
    from kavka.broker.environment import OsEnvironment
    from kavka.broker.lifecycle.identity import IdentityError
    from kavka.broker.requests.background_imports import import_in_background
    from kavka.broker.requests.full_collections import FullCollections
    from kavka.registry.journal import CorruptRegistry

    gc.disable()  # what a start makes lives on: there is nothing to be found in it
    stop_event = listen_for_signals()
    try:
        broker = Broker(settings, OsEnvironment.for_settings(settings))
        endpoints = await start_unless_stopped(stop_event, broker.start())
    except InvalidSetting as error:
        return _failed(str(error))
    except BlockingIOError as error:
        return _failed(
            f"Failed to acquire lock on file {error.filename}. A Kafka instance in "
            "another process or thread is using this directory."
        )
    except (IdentityError, CorruptRegistry, ValueError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        )
    if endpoints is None:
        return 0
    took = time.monotonic() - started
    shown = ",".join(str(endpoint) for endpoint in endpoints)
    print(f"kavka broker {broker.broker_id} ready: {shown} in {took:.2f} s", flush=True)
    try:
        console = _start_console(settings, endpoints)
    except ValueError as error:
        await broker.stop()
        return _failed(str(error))
    gc.freeze()
    gc.enable()
    collections = FullCollections()
    broker.dispatcher.watch_large_requests(collections.large_requests)
    requests_received = broker.dispatcher.requests_received
    while_idle = [
        asyncio.create_task(import_in_background(requests_received)),
        asyncio.create_task(collections.catch_up(requests_received)),
    ]
    reason = await wait_for_stop(stop_event, broker.failed)
    for task in while_idle:
        task.cancel()
    if reason is not None:
        log.error("broker stopped broker=%d reason=%s", broker.broker_id, reason)
        print(f"kavka server-start: {reason}", file=sys.stderr)
    if console is not None:
        await asyncio.to_thread(console.stop)
    await broker.stop()
    return 0 if reason is None else 1


def _has_console(settings: dict[str, str]) -> bool:
    return bool(settings.get("kavka.console.port", "").strip())


def _refusal_of_console(settings: dict[str, str], workers: int | None) -> str | None:
    """Return why the console that was asked for cannot be, None where it can or was not asked for."""
    if not _has_console(settings):
        return None
    if workers is not None:
        return "kavka.console.port is for a lone broker: beside --workers run `kavka console`"
    from kavka.cli.server.console_process import refusal_of_environment

    return refusal_of_environment()


def _start_console(settings: dict[str, str], endpoints: list[Endpoint]) -> ConsoleProcess | None:
    """Start the console if there shall be one. Raise NoConsole, a ValueError."""
    if not _has_console(settings):
        return None
    from kavka.cli.server.console_process import ConsoleProcess, console_words

    port, config = settings["kavka.console.port"], settings.get("kavka.console.config", "")
    return ConsoleProcess(console_words(port, config, endpoints))


def _failed(reason: str) -> int:
    print(f"kavka server-start: {reason}", file=sys.stderr)
    return 1
