"""`kavka server-stop`: stop the brokers of this machine that this user started, cleanly, or one of them."""

from __future__ import annotations

import os
import sys

from kavka.cli.server.log_directories import identity_of, log_directories
from kavka.cli.server.process import UsageError, read_settings
from kavka.cli.server.signals import processes_of, stop, stop_servers

_USAGE = """usage: kavka server-stop [--broker-id N]

Without an option it stops all brokers of this machine that this user started.

--broker-id N     stops the broker with this id
--node-id N       the same
--process-role R  broker is the only role; a controller of its own does not exist"""
_CHOOSING = ("--broker-id", "--node-id")


def main(arguments: list[str]) -> int:
    """Send SIGTERM to `kavka server-start` processes; 1 when there is none, or for an unknown option."""
    if any(word in ("-h", "--help") for word in arguments):
        print(_USAGE)
        return 0
    chosen: int | None = None
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in (*_CHOOSING, "--process-role"):
            value = value if equals else next(words, "")
        if name in _CHOOSING:
            if not value.isdecimal():
                return _refuse(f"{name} needs a number, not {value!r}")
            chosen = int(value)
        elif name == "--process-role" and value != "broker":
            return _refuse(f"--process-role {value!r}: only broker is a role of its own here")
        elif name.startswith("-") and name != "--process-role":
            return _refuse(f"unknown option {name}")
        elif word.isdecimal():  # other words are ignored, as by Apache Kafka's script
            return _refuse(f"{word}: to stop one broker say --broker-id {word}")
    if chosen is None:
        return stop_servers([], command="server-start", server="kafka")
    return _stop_one(chosen)


def _refuse(sentence: str) -> int:
    print(f"kavka server-stop: {sentence}\n{_USAGE}", file=sys.stderr)
    return 1


def _stop_one(broker_id: int) -> int:
    processes = {process: _broker_id(process) for process in processes_of(b"server-start")}
    found = [process for process, known in processes.items() if known == broker_id]
    if not found:
        others = sorted({known for known in processes.values() if known is not None})
        print(
            f"No kafka server with broker.id {broker_id} to stop{_running(others)}", file=sys.stderr
        )
        return 1
    stop(found)
    return 0


def _running(others: list[int]) -> str:
    if len(others) == 1:
        return f"; broker {others[0]} runs"
    return f"; brokers {', '.join(map(str, others))} run" if others else ""


def _broker_id(process: int) -> int | None:
    """Return the id that a broker's process was given or has chosen, None where it cannot be found out."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
        directory = os.readlink(f"/proc/{process}/cwd")
    except OSError:  # it has ended meanwhile
        return None
    given = words[words.index("server-start") + 1 :]
    try:
        settings, _ = read_settings([_under(directory, word) for word in given], _USAGE)
    except UsageError:  # its file is gone, or it is a supervisor
        return None
    text = settings.get("broker.id") or settings.get("node.id") or "-1"
    if text.strip().isdecimal():
        return int(text)
    first = next(iter(log_directories(settings)), "")
    meta, _problem = identity_of(os.path.join(directory, first))
    return None if meta is None else meta.broker_id


def _under(directory: str, word: str) -> str:
    """Return the path of a file as the process in `directory` sees it; other words as they are."""
    path = os.path.join(directory, word)
    return path if not word.startswith("-") and os.path.isfile(path) else word
