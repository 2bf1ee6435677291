"""Stop signals to the servers of this machine that this user started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable

from kavka.cli.server.process import SUPERVISED


def stop_servers(arguments: list[str], *, command: str, server: str) -> int:
    """Send SIGTERM to every `kavka <command>` process; 1 when there is none, or for an option that would choose.

    `server` is what Kafka's script calls it. A file is passed over, as that does.
    """
    name = command.replace("start", "stop")
    if any(word in ("-h", "--help") for word in arguments):
        print(f"usage: kavka {name}")
        return 0
    options = [word for word in arguments if word.startswith("-")]
    if options:
        print(
            f"kavka {name}: {options[0]}: there are no options: it stops every {server} server of this machine; "
            "`kill` with a process id stops one",
            file=sys.stderr,
        )
        return 1
    processes = processes_of(command.encode())
    if not processes:
        print(f"No {server} server to stop", file=sys.stderr)
        return 1
    stop(processes)
    return 0


def stop(processes: Iterable[int]) -> None:
    """Send SIGTERM to processes; one that has ended meanwhile is passed over."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def processes_of(command: bytes) -> list[int]:
    """Return the processes of this user that run `kavka <command>`, without those that a supervisor stops."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if os.stat(f"/proc/{name}").st_uid != os.getuid():
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                is_supervised = f"\0{SUPERVISED}=".encode() in b"\0" + file.read()
        except OSError:  # it ended meanwhile, or is not ours to check
            continue
        is_kavka = any(os.path.basename(word) == b"kavka" for word in words[:4])
        if is_kavka and command in words[:5] and not is_supervised:
            found.append(int(name))
    return found
