"""The test's side of the process that runs the brokers. Imports no broker and no client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PROGRAM = "from kavka.testing.host import main; main()"
__tracebackhide__ = True  # pytest shows the line of the test that called
_END_S = 20
_hosts: weakref.WeakSet[HostProcess] = weakref.WeakSet()


class HostProcess:
    """A child process; its calls come from any thread of the process that made it, one at a time."""

    def __init__(self, log_file: Path, level: str = "info") -> None:
        """Start it, without waiting until it is ready: it imports what it needs meanwhile."""
        self.log_file = log_file
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._number = 0
        self._clusters = 0
        ours, theirs = socket.socketpair()
        with theirs, log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _PROGRAM,
                    str(theirs.fileno()),
                    str(self._owner),
                    level,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the tests: brokers end after them
            )
        self._connection = Connection(ours.detach())
        _hosts.add(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def new_cluster(self) -> int:
        """Return the number of another cluster."""
        self._clusters += 1
        return self._clusters

    def call(self, cluster: int, method: str, *args: Any, **named: Any) -> Any:
        """Call a method there; raise what it raises. Raise RuntimeError in a forked child, or when it has ended."""
        if os.getpid() != self._owner:
            raise RuntimeError(
                "kavka's fixtures work in the process of the test only; "
                "give a child process bootstrap_servers and names of topics"
            )
        with self._lock:
            self._number += 1
            try:
                self._connection.send((self._number, cluster, method, args, named))
                number, is_error, value = self._connection.recv()
                while number != self._number:  # of a call that an exception has cut short
                    number, is_error, value = self._connection.recv()
            except (EOFError, OSError) as error:
                raise RuntimeError(self._obituary()) from error
        if is_error:
            raise value
        return value

    def _obituary(self) -> str:
        try:
            code: int | None = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        return f"the process of the brokers has ended, exit code {code}\n{log_tail(self.log_file)}"

    def end(self) -> None:
        """End it, and wait until it has ended."""
        if os.getpid() != self._owner:
            return
        self._connection.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def leave(self) -> None:
        """Forget it, in a forked child."""
        self._connection.close()


def _leave_all() -> None:
    for host in list(_hosts):
        host.leave()


os.register_at_fork(after_in_child=_leave_all)


def _environment() -> dict[str, str]:
    """Return the environment, without what would measure the brokers' coverage or change Python's behaviour."""
    left_out = ("COV_CORE_", "COVERAGE_", "PYTHONWARNINGS", "PYTHONTRACEMALLOC", "PYTHONDEVMODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def log_tail(path: Path, start: int = 0, lines: int = 40, tail_bytes: int = 64 * 1024) -> str:
    """Return the last lines of a log file that come after byte `start`."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - tail_bytes))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"({error})"
    found = text.splitlines()
    left_out = [f"... ({len(found) - lines} lines before, in {path})"] if len(found) > lines else []
    return "\n".join(left_out + found[-lines:])
