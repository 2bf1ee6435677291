"""Brokers as real processes by number: each keeps its port and its log directory however often it is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kavka_compat.processes import Running, free_port


class BrokerProcesses:
    """The common part of clusters of processes. A subclass says how a broker is started, and how it is ready."""

    def __init__(self, directory: Path, numbers: Iterable[int]) -> None:
        """Choose ports; none runs yet."""
        self._directory = directory
        self._ports = {number: free_port() for number in numbers}
        self._running: dict[int, Running] = {}
        self._starts = 0

    def _command(self, number: int) -> Sequence[str]:
        """Return the command of a broker, after its configuration was written."""
        raise NotImplementedError

    def _ready_line(self, number: int) -> str:
        """Return what a broker writes when it is ready."""
        return f"kavka broker {number} ready: "

    @property
    def bootstrap(self) -> str:
        """All brokers, dead ones too, as clients have them in their configuration."""
        return ",".join(self.address(number) for number in self._ports)

    def address(self, number: int) -> str:
        """The value of `bootstrap.servers` with one broker."""
        return f"127.0.0.1:{self._ports[number]}"

    @property
    def running_addresses(self) -> list[str]:
        """The addresses of the brokers that were started and not ended."""
        return [self.address(number) for number in self._running]

    def launch(self, number: int) -> None:
        """Start a broker; it is not ready yet."""
        self._starts += 1
        output = self._directory / f"start-{self._starts}-of-{number}.out"
        self._running[number] = Running(list(self._command(number)), output)

    def wait_ready(self, *numbers: int, seconds: float = 90) -> None:
        """Wait until brokers say that they are ready."""
        for number in numbers:
            self._running[number].wait_for(self._ready_line(number), seconds)

    def kill(self, number: int) -> None:
        """End a broker with SIGKILL."""
        self._running.pop(number).kill()

    def is_running(self, number: int) -> bool:
        """Return whether a broker that was started has not ended by itself."""
        return self._running[number].alive()

    def text(self, number: int) -> str:
        """Return what the running process of a broker has written."""
        return self._running[number].text()

    def abandon(self) -> None:
        """Kill what still runs: its data is not needed."""
        for process in self._running.values():
            if process.alive():
                process.kill()
        self._running.clear()
