"""Our broker as a real process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kavka_compat.brokers import Broker
from kavka_compat.processes import Running

_READY = re.compile(r"kavka broker \d+ ready: PLAINTEXT://127\.0\.0\.1:(\d+) in [\d.]+ s")


def kavka_command(*arguments: str) -> list[str]:
    """Return the command line that runs `kavka` with the interpreter of this process."""
    return [sys.executable, "-m", "kavka", *arguments]


def launch_kavka(
    directory: Path,
    settings: Mapping[str, str],
    port: int,
    command: Callable[..., list[str]] = kavka_command,
) -> Broker:
    """Start our broker on `port` with its log and output in `directory`, not ready yet."""
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    chosen = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(logs), **settings}
    overrides = [
        part for name, value in chosen.items() for part in ("--override", f"{name}={value}")
    ]
    process = Running(command("server-start", *overrides), directory / "server.out")
    return Broker("kavka", port, process, logs)


def start_kavka(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    port: int = 0,
    command: Callable[..., list[str]] = kavka_command,
) -> Broker:
    """Start our broker, on a port of its choice, and return when it says that it is ready."""
    broker = launch_kavka(directory, settings or {}, port, command)
    try:
        line = broker.process.wait_for("ready: ", 30)
        ready = _READY.search(line)
        assert ready is not None, f"the ready line has another form: {line!r}"
    except BaseException:
        broker.process.kill()
        raise
    return replace(broker, port=int(ready[1]))


@contextmanager
def run_kavka(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    command: Callable[..., list[str]] = kavka_command,
) -> Iterator[Broker]:
    """Run our broker for the body of a `with`."""
    broker = start_kavka(directory, settings, command=command)
    try:
        yield broker
    finally:
        broker.process.stop()
