"""`kavka server-stop`: tell the brokers of this machine, started by this user, to stop cleanly."""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str]) -> int:
    """Send SIGTERM to every `kavka server-start` process; 1 when there is none."""
    if any(word in ("-h", "--help") for word in arguments):
        print("usage: kavka server-stop")
        return 0
    processes = _brokers()
    if not processes:
        print("No kafka server to stop", file=sys.stderr)
        return 1
    for process in processes:
        os.kill(process, signal.SIGTERM)
    return 0


def _brokers() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if os.stat(f"/proc/{name}").st_uid != os.getuid():
                continue
        except OSError:  # it ended meanwhile, or is not ours to look at
            continue
        is_kavka = any(os.path.basename(word) == b"kavka" for word in words[:4])
        if is_kavka and b"server-start" in words[:5]:
            found.append(int(name))
    return found
