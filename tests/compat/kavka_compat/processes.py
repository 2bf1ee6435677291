"""A child process with its output in a file: started, watched for a line, measured, stopped by its id."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PR_SET_PDEATHSIG = 1

T = TypeVar("T")


class ProcessDied(RuntimeError):
    """A process ended, or stayed silent, before it was ready; the text carries the end of its output."""


def free_port() -> int:
    """Return a loopback port that no process has bound at this time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` for a child that gets SIGTERM when this process dies, even of kill -9 (prctl(2)).

    The thread that starts the child must be one that lives as long as the process.
    """
    libc, parent = ctypes.CDLL(None), os.getpid()

    def request_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)  # it died before the request

    return request_signal


def process_cpu_s(pid: int) -> float:
    """Return the processor time of a process, user and system, all threads; raise OSError if there is none of this id.

    Its own clock counts nanoseconds, where /proc/PID/stat counts ticks of 10 ms: a tenth of a short benchmark.
    """
    clock = (~pid << 3) | 2  # what clock_getcpuclockid(3) returns
    return time.clock_gettime(clock)


class Running:
    """One child process whose standard output and error go to `output`."""

    def __init__(
        self, command: Sequence[str], output: Path, environment: dict[str, str] | None = None
    ) -> None:
        """Start `command`; `environment` is added to the parent's."""
        self.output = output
        self.started = time.monotonic()
        with output.open("wb") as sink:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    def text(self) -> str:
        """Return what it has written so far."""
        return self.output.read_text(errors="replace")

    def wait_for(self, phrase: str, seconds: float) -> str:
        """Return the first line that contains `phrase`. Raise ProcessDied when none comes."""

        def first_line() -> str | None:
            lines = self.text().splitlines(keepends=True)
            return next((line for line in lines if phrase in line and line.endswith("\n")), None)

        return self.wait_until(first_line, repr(phrase), seconds).rstrip("\n")

    def wait_until(self, ask: Callable[[], T | None], what: str, seconds: float) -> T:
        """Return the first value of `ask` that is true. Raise ProcessDied when it ends or takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            has_ended = not self.alive()
            if value := ask():
                return value
            if has_ended:
                raise ProcessDied(
                    f"ended with {self._process.returncode} before {what}:{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise ProcessDied(f"no {what} within {seconds:g} s:{self._tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once (SIGKILL) and reap it."""
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def stop(self, seconds: float = 30) -> int:
        """Ask it to end (SIGTERM) and return its exit code; one that does not obey is killed."""
        if self.alive():
            self.signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessDied(f"did not stop within {seconds:g} s:{self._tail()}") from None

    def cpu_seconds(self) -> float:
        """Return the processor time that it used; raise OSError once it has been waited for."""
        return process_cpu_s(self.pid)

    def resident_bytes(self) -> int:
        """Return its resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES

    def peak_resident_bytes(self) -> int:
        """Return the most resident memory that it ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def _tail(self) -> str:
        lines = self.text().splitlines()[-30:]
        return "\n  " + "\n  ".join(lines) if lines else " it wrote nothing"
