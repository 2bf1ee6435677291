"""Our broker as a real process."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kavka_compat.brokers import Broker
from kavka_compat.processes import Running

_READY = re.compile(r"kavka broker \d+ ready: PLAINTEXT://127\.0\.0\.1:(\d+) in [\d.]+ s")


def kavka_command(*arguments: str) -> list[str]:
    """Return the command line that runs `kavka` with the interpreter of this process."""
    return [sys.executable, "-m", "kavka", *arguments]


def start_kavka(
    directory: Path, settings: Mapping[str, str] | None = None, port: int = 0
) -> Broker:
    """Start our broker with its log and output in `directory`; return when it says that it is ready."""
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    chosen = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(logs),
        **(settings or {}),
    }
    overrides = [
        part for name, value in chosen.items() for part in ("--override", f"{name}={value}")
    ]
    process = Running(kavka_command("server-start", *overrides), directory / "server.out")
    try:
        line = process.wait_for("ready: ", 30)
        ready = _READY.search(line)
        assert ready is not None, f"the ready line has another form: {line!r}"
    except BaseException:
        process.kill()
        raise
    return Broker("kavka", int(ready[1]), process, logs)


@contextmanager
def run_kavka(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Run our broker for the body of a `with`."""
    broker = start_kavka(directory, settings)
    try:
        yield broker
    finally:
        broker.process.stop()
