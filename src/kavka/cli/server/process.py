"""Common parts of the server commands: arguments, signals, logging, daemons."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import resource
import signal
import stat
import sys
import threading
import time
from collections.abc import Coroutine
from types import FrameType
from typing import Any, Final, TypeVar

from kavka.settings.properties import parse_properties
from kavka.settings.text_files import read_text

log = logging.getLogger(__name__)

T = TypeVar("T")

_END_S: Final = 10

SUPERVISED = "KAVKA_SUPERVISED"
"""The variable that names a process which a supervisor has started; it ends when its standard input does."""
_PASSWORD: Final = re.compile(
    r"(?:password|secret|jaas\.config|secret\.key|master\.key|keystore\.key)$", re.IGNORECASE
)
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
"""Characters that end a line, show nothing, or turn the direction in which what follows is shown."""
_CORE_FILTER: Final = "/proc/self/coredump_filter"


class UsageError(Exception):
    """The arguments cannot be understood, or the file cannot be read."""


def read_settings(arguments: list[str], usage: str) -> tuple[dict[str, str], bool]:
    """Return what the properties files and overrides say, and whether to serve in the background. Raise BadUsage."""
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
                raise UsageError(f"--override needs property=value, not {given!r}")
            overrides[name.strip()] = value
        elif word.startswith("-"):
            raise UsageError(f"unknown option {word}\n{usage}")
        else:
            settings.update(_properties(word))
    return {**settings, **overrides}, is_daemon


def _properties(path: str) -> dict[str, str]:
    try:
        return parse_properties(read_text(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def warn_of_readers(arguments: list[str], settings: dict[str, str]) -> None:
    """Warn of a properties file with passwords that every user of the machine can read; a group may, as in pods."""
    if not any(_PASSWORD.search(name) and value for name, value in settings.items()):
        return
    words = iter(arguments)
    for word in words:
        if word == "--override":
            next(words, "")
        elif not word.startswith("-"):
            with contextlib.suppress(OSError):  # it has been read, and may be a pipe that has gone
                if os.stat(word).st_mode & stat.S_IROTH:
                    log.warning("passwords readable by every user file=%s", word)


def raise_descriptor_limit() -> None:
    """Take as many descriptors as the system grants, as a JVM does: each connection costs one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a system with another maximum keeps its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_out_of_core_dumps() -> None:
    """Prevent core dumps of this process and of those that it starts: memory holds keys, passwords and records.

    A program that takes core dumps for the system may ignore the limit: the filter leaves all memory out of them.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    # A kernel without core dumps has no filter.
    with contextlib.suppress(OSError), open(_CORE_FILTER, "wb", buffering=0) as file:
        file.write(b"0")


class OneLine(logging.Formatter):
    """Writes a message in one line, and tracebacks indented: what a client chose must not look like another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, with escapes in place of control characters."""
        return _escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Return the traceback, each line behind two blanks."""
        return "\n".join(f"  {_escaped(line)}" for line in super().formatException(ei).split("\n"))


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def log_to_stderr(level: str, path: str | None) -> None:
    """Log at `level`, to the file `path` if there is one."""
    handler: logging.Handler = logging.FileHandler(path) if path else logging.StreamHandler()
    name = os.environ.get(SUPERVISED)
    prefix = f"[{name}] " if name else ""
    handler.setFormatter(OneLine(f"[%(asctime)s] %(levelname)s {prefix}%(message)s (%(name)s)"))
    root = logging.getLogger("kavka")
    root.addHandler(handler)
    root.setLevel(level if level in ("DEBUG", "INFO", "WARNING", "ERROR") else "INFO")
    root.propagate = False


def listen_for_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set from now on, and the end of the supervisor if there is one.

    The loop's own `add_signal_handler` loses a signal when the loop's wake-up pipe is full, which is
    full when a busy loop has a few hundred responses of the pool to take.
    """
    loop, stop_event = asyncio.get_running_loop(), asyncio.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop_event.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    if SUPERVISED in os.environ:
        _listen_to_supervisor(loop, stop_event)
    return stop_event


def _listen_to_supervisor(loop: asyncio.AbstractEventLoop, stop_event: asyncio.Event) -> None:
    def read() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin)
            stop_event.set()

    loop.add_reader(sys.stdin, read)


def end_with_standard_input() -> None:
    """End this process by SIGTERM when standard input ends, which only its supervisor has the other end of.

    For programs that run a loop of their own: a thread waits. What is not ended after ten seconds is ended by force.
    """

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_END_S)
        os._exit(1)

    threading.Thread(target=wait, name="kavka-supervisor", daemon=True).start()


async def start_unless_stopped(
    stop_event: asyncio.Event, start: Coroutine[Any, Any, T]
) -> T | None:
    """Return what the start gives, or None when a signal came first: the start is then taken back."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(stop_event.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.wait({starting})
    return None


async def wait_for_stop(stop_event: asyncio.Event, failed: asyncio.Future[str]) -> str | None:
    """Return None on a signal, the reason when the broker cannot continue."""
    failed.add_done_callback(lambda _failed: stop_event.set())
    await stop_event.wait()
    return failed.result() if failed.done() else None


def start_daemon(command: str, arguments: list[str], logs: tuple[str, str]) -> int:
    """Run `kavka <command>` in a session of its own, and return when it is ready or has failed.

    `logs` are the names of its log and of the file for its standard error, both in LOG_DIR.
    """
    arguments = [word for word in arguments if word != "-daemon"]
    reader, writer = os.pipe()
    environment = {**os.environ}
    directory = environment.get("LOG_DIR", "logs")
    os.makedirs(directory, exist_ok=True)
    environment.setdefault("KAVKA_LOG_FILE", os.path.join(directory, logs[0]))
    words = [sys.executable, "-m", "kavka", command, *arguments]
    error_log = os.open(
        os.path.join(directory, logs[1]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666
    )
    process = os.posix_spawn(
        sys.executable,
        words,
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
        f"kavka {command}: it did not start; see {directory}/{logs[1]}",
        file=sys.stderr,
    )
    return 1
