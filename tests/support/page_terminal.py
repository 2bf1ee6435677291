"""The blocks of a page of documentation, typed in one shell: variables, functions and servers stay between them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DONE = "-- the block is done --"


def is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def free_tens(count: int) -> list[str]:
    """Return the beginnings of port numbers, below those that the system gives away; 1, 2 and 3 after each are free."""
    beginnings = random.sample(range(1100, 3200), 500)
    free = [str(b) for b in beginnings if all(is_free(10 * b + last) for last in (1, 2, 3))]
    return free[:count]


class Shell:
    """A bash in which all blocks run, as in a terminal in which they are typed."""

    def __init__(self, directory: Path, replaced: dict[str, str]) -> None:
        self._directory = directory
        self._replaced = replaced
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=directory,
            env={**os.environ, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, text: str) -> str:
        """Run a block; each of its commands must succeed. Return what it printed."""
        for here, there in self._replaced.items():
            text = text.replace(here, there)
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"set -eu\n{text}\nset +eu; echo '{_DONE}'\n")
        self._bash.stdin.flush()
        printed = ""
        for line in self._bash.stdout:
            if line.strip() == _DONE:
                return printed
            printed += line
        raise AssertionError(f"{text}\n{printed}\n{self._logs()}")

    def end(self) -> None:
        """Kill the shell, and what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate(timeout=60)

    def _logs(self) -> str:
        return "\n".join(
            f"-- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self._directory.glob("*.log"))
        )


@contextmanager
def shell_in(directory: Path, replaced: dict[str, str]) -> Iterator[Shell]:
    shell = Shell(directory, replaced)
    try:
        yield shell
    finally:
        shell.end()
