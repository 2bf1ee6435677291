"""An embedded broker: a child process on a free port of 127.0.0.1, with its data in a directory of the demo."""

from __future__ import annotations

import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_READY = re.compile(rb"ready: PLAINTEXT://(\S+?:\d+)")
_START_S = 30.0
_STOP_S = 15.0


class BrokerFailed(Exception):
    """The broker did not start or has ended; the message has the last line of its log."""


class EmbeddedBroker:
    """A broker that runs for the duration of a `with` block."""

    def __init__(self, directory: Path) -> None:
        """Set the directory of log segments and of the broker's own log."""
        self._directory = directory
        self._log = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    def __enter__(self) -> Self:
        """Start the broker and wait until it accepts. Raise BrokerFailed."""
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "kavka", "server-start"]
        for setting in (
            "listeners=PLAINTEXT://127.0.0.1:0",
            f"log.dirs={self._directory / 'data'}",
            "group.initial.rebalance.delay.ms=0",
        ):
            command += ["--override", setting]
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal is for the demo, which then stops the broker in order.
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self.bootstrap = self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the broker."""
        self.stop()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Return host:port from the line that the broker prints when it accepts."""
        assert process.stdout is not None
        output = b""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            readable, _, _ = select.select([process.stdout], [], [], 0.2)
            if not readable:
                continue
            line = process.stdout.readline()
            output += line
            match = _READY.search(line)
            if match is not None:
                return match[1].decode()
            if not line:
                break
        raise BrokerFailed(f"the broker did not start: {self._log_tail()}")

    def check(self) -> None:
        """Raise BrokerFailed when the broker has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise BrokerFailed(
                f"the broker ended with code {self._process.returncode}: {self._log_tail()}"
            )

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"

    def stop(self) -> None:
        """Stop the broker cleanly, and by force when that takes too long. Calling it twice is allowed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
