"""`kavka server-start [-daemon] [server.properties] [--override name=value]...`: one broker in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from kavka.settings.declaration import InvalidSetting
from kavka.settings.properties import parse_properties

log = logging.getLogger("kavka")
T = TypeVar("T")

_USAGE = """usage: kavka server-start [-daemon] [server.properties] [--override property=value]...

Without a file the broker serves 127.0.0.1:9092 and keeps its data in /tmp/kafka-logs.
A port of 0 takes a free one; the line printed on standard output names it."""


class _BadUsage(Exception):
    """The arguments cannot be understood, or the file cannot be read."""


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a clean stop, 1 when the broker could not start or had to end."""
    started = time.monotonic()
    if any(word in ("-h", "--help") for word in arguments):
        print(_USAGE)
        return 0
    try:
        settings, is_daemon = _read(arguments)
    except _BadUsage as error:
        print(f"kavka server-start: {error}", file=sys.stderr)
        return 1
    if is_daemon:
        return _daemon([word for word in arguments if word != "-daemon"])
    _raise_descriptor_limit()
    _log_to_stderr(settings.get("kavka.log.level", "INFO"), os.environ.get("KAVKA_LOG_FILE"))
    return asyncio.run(_serve(settings, started))


def _read(arguments: list[str]) -> tuple[dict[str, str], bool]:
    settings: dict[str, str] = {}
    overrides: dict[str, str] = {}
    is_daemon = False
    words = iter(arguments)
    for word in words:
        if word == "-daemon":
            is_daemon = True
        elif word == "--override" or word.startswith("--override="):
            given = word.partition("=")[2] if "=" in word else next(words, "")
            name, equals, value = given.partition("=")
            if not equals or not name:
                raise _BadUsage(f"--override needs property=value, not {given!r}")
            overrides[name.strip()] = value
        elif word.startswith("-"):
            raise _BadUsage(f"unknown option {word}\n{_USAGE}")
        else:
            settings.update(_properties(word))
    return {**settings, **overrides}, is_daemon


def _properties(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise _BadUsage(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise _BadUsage(f"{path}: {error}") from error


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as the system grants, as a JVM does: each connection costs one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a system with another maximum keeps its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _log_to_stderr(level: str, path: str | None) -> None:
    handler: logging.Handler = logging.FileHandler(path) if path else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    root = logging.getLogger("kavka")
    root.addHandler(handler)
    root.setLevel(level if level in ("DEBUG", "INFO", "WARNING", "ERROR") else "INFO")
    root.propagate = False


async def _serve(settings: dict[str, str], started: float) -> int:
    from kavka.broker.broker import Broker
    from kavka.broker.host import RealHost
    from kavka.broker.identity import IdentityError
    from kavka.registry.journal import CorruptRegistry

    told = _listen_for_signals()
    try:
        broker = Broker(settings, RealHost.for_settings(settings))
        endpoints = await _unless_told(told, broker.start())
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
    # What the start made lives as long as the broker: the collector need not walk it again.
    gc.collect()
    gc.freeze()
    reason = await _until_told_to_stop(told, broker.failed)
    if reason is not None:
        log.error("broker stopped broker=%d reason=%s", broker.broker_id, reason)
        print(f"kavka server-start: {reason}", file=sys.stderr)
    await broker.stop()
    return 0 if reason is None else 1


def _listen_for_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set from now on.

    The loop's own `add_signal_handler` loses a signal whose number finds no room in the loop's wake-up pipe, which is
    full when a busy loop has a few hundred answers of the pool to take.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(told.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    return told


async def _unless_told(told: asyncio.Event, start: Coroutine[Any, Any, T]) -> T | None:
    """Return what the start gives, or None when a signal came first: the start is then taken back."""
    starting = asyncio.ensure_future(start)
    telling = asyncio.ensure_future(told.wait())
    await asyncio.wait({starting, telling}, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.wait({starting})
    return None


async def _until_told_to_stop(told: asyncio.Event, failed: asyncio.Future[str]) -> str | None:
    """Return None on a signal, the reason when the broker cannot go on."""
    failed.add_done_callback(lambda _failed: told.set())
    await told.wait()
    return failed.result() if failed.done() else None


def _failed(reason: str) -> int:
    print(f"kavka server-start: {reason}", file=sys.stderr)
    return 1


def _daemon(arguments: list[str]) -> int:
    """Start the broker in a session of its own, and return when it is ready or has failed."""
    reader, writer = os.pipe()
    environment = {**os.environ}
    directory = environment.get("LOG_DIR", "logs")
    os.makedirs(directory, exist_ok=True)
    environment.setdefault("KAVKA_LOG_FILE", os.path.join(directory, "server.log"))
    command = [sys.executable, "-m", "kavka", "server-start", *arguments]
    error_log = os.open(
        os.path.join(directory, "kafkaServer.out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
    )
    process = os.posix_spawn(
        sys.executable,
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_DUP2, error_log, 2),
            (os.POSIX_SPAWN_CLOSE, reader),
        ],
        setsid=True,
    )
    os.close(writer)
    os.close(error_log)
    with os.fdopen(reader, encoding="utf-8") as output:
        line = output.readline()
    if line:
        print(f"{line.rstrip()} (process {process}, log in {environment['KAVKA_LOG_FILE']})")
        return 0
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)
    print(
        f"kavka server-start: the broker did not start; see {directory}/kafkaServer.out",
        file=sys.stderr,
    )
    return 1
