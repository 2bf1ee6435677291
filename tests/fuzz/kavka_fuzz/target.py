"""The broker under test: a real process, what must hold of it, and what one frame costs it."""

from __future__ import annotations

import asyncio
import os
import re
import select
import shutil
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka_compat.processes import Running
from kavka_fuzz import contents
from kavka_fuzz.measured_broker import LAYOUT
from kavka_fuzz.vocabulary import Known

_PYTHON_PATH = [path for path in [os.environ.get("PYTHONPATH", "")] if path]
_READY = re.compile(r"kavka broker \d+ ready: PLAINTEXT://127\.0\.0\.1:(\d+) in [\d.]+ s")
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "log.cleaner.backoff.ms": "600000",
}
_PING = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_QUIET_S = 0.015
_BETWEEN_PINGS_S = 0.004
_SILENT_S = 0.5
_SILENT_WINDOWS = 8
_LONGEST_SILENCE_MS = 5_000
_QUIET_CPU_NS = 3_000_000
_TRACEBACK = "Traceback (most recent call last)"


class BrokerFailed(AssertionError):
    """The broker ended, or does not serve as it did before."""


@dataclass
class Cost:
    """The cost and the outcome of a frame."""

    bytes: int = 0
    loop_ms: float = 0.0
    """The most processor time of the loop's thread in one go; -1 where it cannot be known."""
    wall_ms: float = 0.0
    """The longest wait of another client for its ApiVersions."""
    total_ms: float = 0.0
    growth_mb: float = 0.0
    """The largest growth of the process, in MB."""
    outcome: str = ""
    """`answered`, `closed`, `silent` (a request that waits), or `busy`: still at work after twenty
    seconds, as with topics to be created."""
    tracebacks: list[str] = field(default_factory=list)


class Other:
    """Another client, which asks for ApiVersions all the time."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._asked: float | None = None
        self._last = 0.0
        self._read = bytearray()
        self.worst_ms = 0.0
        self.responses = 0

    @property
    def unanswered_ms(self) -> float:
        """Milliseconds since its unanswered request was sent; 0 when there is none."""
        return 0.0 if self._asked is None else (time.monotonic() - self._asked) * 1000

    def ask(self) -> None:
        """Send a request unless one is on its way, or was just now."""
        if self._asked is None and time.monotonic() - self._last >= _BETWEEN_PINGS_S:
            self._asked = self._last = time.monotonic()
            self.socket.sendall(_PING)

    def read(self) -> None:
        """Take what has come of the response. Raise BrokerFailed when the connection was closed."""
        data = self.socket.recv(65536)
        if not data:
            raise BrokerFailed("the connection of another client was closed")
        self._read += data
        if len(self._read) >= 4 and len(self._read) >= 4 + struct.unpack_from(">i", self._read)[0]:
            assert self._asked is not None
            self.worst_ms = max(self.worst_ms, (time.monotonic() - self._asked) * 1000)
            self._read.clear()
            self._asked = None
            self.responses += 1


class Process:
    """The operating system's data about a process."""

    def __init__(self, pid: int) -> None:
        """`pid` is a child that runs."""
        self._directory = Path(f"/proc/{pid}")

    def cpu_ns(self) -> int:
        """Return the processor time of all its threads."""
        return sum(int(text.split()[0]) for text in self._of_threads("schedstat"))

    def is_asleep(self) -> bool:
        """Return whether all its threads wait: none runs, and none would if the machine had a processor free."""
        return all(text.rpartition(")")[2].split()[0] == "S" for text in self._of_threads("stat"))

    def _of_threads(self, file: str) -> Iterator[str]:
        for task in (self._directory / "task").iterdir():
            try:
                yield (task / file).read_text()
            except OSError:  # a thread that has ended
                continue

    def forget_peak(self) -> None:
        """Let the peak of its memory begin at what it has now."""
        (self._directory / "clear_refs").write_text("5")

    def resident_mb(self, line: str = "VmRSS") -> float:
        """Return its memory, or with `VmHWM` its peak."""
        status = (self._directory / "status").read_text()
        (found,) = (each for each in status.splitlines() if each.startswith(line + ":"))
        return int(found.split()[1]) / 1024


class Target:
    """A broker with topics, a group and a transactional id that recipes know, and one topic that they do not."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start over an empty directory, and fill it."""
        self._directory = directory
        self._generation = 0
        self._settings = {**_SETTINGS, **(settings or {})}
        self.known = Known()
        self.start()

    def start(self) -> None:
        """Start a broker over a directory of its own, and fill it."""
        self._generation += 1
        while (home := self._directory / f"broker-{self._generation}").exists():
            self._generation += 1
        home.mkdir(parents=True)
        self.home = home
        self.resume()
        self.prepare()
        self.base_mb = self.system.resident_mb()

    def resume(self) -> None:
        """Start a broker over the directory of the one before, which has ended."""
        self._seen_of_log = 0
        self.frames = 0
        counter = self._counter = self.home / "longest-iteration"
        counter.write_bytes(bytes(LAYOUT.size))
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.home / "logs"),
            **self._settings,
        }
        overrides = [w for n, v in settings.items() for w in ("--override", f"{n}={v}")]
        command = [sys.executable, "-m", "kavka_fuzz.measured_broker", str(counter), "server-start"]
        path = os.pathsep.join([str(Path(__file__).parent.parent), *_PYTHON_PATH])
        self.process = Running(
            [*command, *overrides], self.home / "server.out", {"PYTHONPATH": path}
        )
        ready = _READY.search(self.process.wait_for("ready: ", 60))
        assert ready is not None
        self.port = int(ready[1])
        self.system = Process(self.process.pid)

    def prepare(self) -> None:
        """Make what recipes know, where it is missing."""
        self.known.directory = str(self.home / "logs")
        asyncio.run(self._with_peer(contents.prepare, self.known))

    def check(self) -> None:
        """Insist that the broker serves, keeps what it acknowledged, and has not ended. Raise BrokerFailed."""
        self.check_alive()
        try:
            asyncio.run(self._with_peer(contents.check))
        except (OSError, AssertionError) as error:
            raise BrokerFailed(f"it does not serve any more: {error!r}") from error

    async def _with_peer(self, story, *arguments) -> None:
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", self.port, client_id="check")
        try:
            await story(peer, *arguments)
        finally:
            peer.close()

    def check_alive(self) -> None:
        """Raise BrokerFailed when the process has ended."""
        if not self.process.alive():
            raise BrokerFailed(f"the broker has ended: {self.process.text()[-2000:]}")

    def restart(self) -> None:
        """Begin again with an empty broker."""
        self.end()
        self.start()

    def end(self) -> None:
        """End the broker, and remove what it kept."""
        self.process.kill()
        shutil.rmtree(self.home / "logs", ignore_errors=True)

    def log_lines(self) -> list[str]:
        """Return the lines that its log has got since the last call."""
        with self.process.output.open("rb") as log:
            log.seek(self._seen_of_log)
            new = log.read()
        self._seen_of_log += len(new)
        return new.decode(errors="replace").splitlines()

    def tracebacks(self) -> list[str]:
        """Return the tracebacks among them, each with the line before it."""
        found = []
        lines = self.log_lines()
        for number, line in enumerate(lines):
            if line.startswith(_TRACEBACK):
                behind = range(number + 1, len(lines))
                end = next((n for n in behind if not lines[n].startswith(" ")), len(lines) - 1)
                found.append("\n".join(lines[max(0, number - 1) : end + 1]))
        return found

    def _longest_iteration_ns(self) -> int:
        """Return the longest iteration since the last call, in processor time."""
        with self._counter.open("r+b") as file:  # not to be truncated: the broker has it mapped
            (longest,) = LAYOUT.unpack(file.read(LAYOUT.size))
            file.seek(0)
            file.write(bytes(LAYOUT.size))
        return int(longest)

    def cost(self, frame: bytes, patience_s: float = 20.0) -> Cost:
        """Send a frame on a connection of its own, and return what it cost when the broker is quiet again."""
        self.frames += 1
        self._longest_iteration_ns()
        self.system.forget_peak()
        before_mb = self.system.resident_mb()
        began = time.monotonic()
        outcome, other = exchange(self.port, frame, self.system, patience_s)
        self.check_alive()
        longest_ns = self._longest_iteration_ns()
        return Cost(
            len(frame),
            longest_ns / 1e6,
            other.worst_ms,
            (time.monotonic() - began) * 1000,
            self.system.resident_mb("VmHWM") - before_mb,
            outcome,
            self.tracebacks(),
        )


def exchange(
    port: int, frame: bytes, system: Process | None, patience_s: float
) -> tuple[str, Other]:
    """Send a frame on a connection of its own; return its outcome and the other client when the broker is quiet.

    Without `system` it counts as quiet when the frame was answered, or the other client was for half a second.
    """
    sender = socket.create_connection(("127.0.0.1", port))
    sender.setblocking(False)
    other = Other(port)
    try:
        data = struct.pack(">i", len(frame)) + frame
        return _until_quiet(sender, data, other, system, patience_s)
    finally:
        sender.close()
        other.socket.close()


class _Quiet:
    """A check, from time to time, whether the broker has nothing more to do.

    It is quiet when its threads slept and used next to no time, and it answered the other client, through some windows
    in a row: one when the frame has been answered, more when it has not.
    """

    def __init__(self, system: Process | None, other: Other) -> None:
        self._system = system
        self._other = other
        self._windows = 0
        self._begin()

    def _begin(self) -> None:
        self._since = time.monotonic()
        self._cpu_ns = self._system.cpu_ns() if self._system else 0
        self._responses = self._other.responses

    def is_quiet(self, outcome: str) -> bool:
        """Look, when a window is over."""
        is_silent = outcome == "silent"
        if time.monotonic() - self._since < (
            _SILENT_S if is_silent and not self._system else _QUIET_S
        ):
            return False
        was_calm = self._other.responses > self._responses and (
            self._system is None
            or (self._system.cpu_ns() - self._cpu_ns < _QUIET_CPU_NS and self._system.is_asleep())
        )
        self._windows = self._windows + 1 if was_calm else 0
        self._begin()
        return self._windows >= (_SILENT_WINDOWS if is_silent else 1)


def _until_quiet(
    sender: socket.socket, data: bytes, other: Other, system: Process | None, patience_s: float
) -> tuple[str, Other]:
    """Return the outcome when the broker has nothing more to do."""
    left = memoryview(data)
    outcome = "silent"
    received = bytearray()
    deadline = time.monotonic() + patience_s
    quiet = _Quiet(system, other)
    while True:
        readers = [other.socket] if outcome == "closed" else [other.socket, sender]
        writers = [sender] if len(left) and outcome != "closed" else []
        ready, writable, _ = select.select(readers, writers, [], _BETWEEN_PINGS_S)
        if other.socket in ready:
            other.read()
        if sender in ready or writable:
            outcome, left = _exchange(sender, left, received, outcome, is_readable=sender in ready)
        if time.monotonic() > deadline:
            if other.unanswered_ms > _LONGEST_SILENCE_MS:
                raise BrokerFailed(
                    f"another client has had no answer for {other.unanswered_ms:.0f} ms"
                )
            return "busy", other
        is_sent = outcome == "closed" or not len(left)
        if is_sent and not other.unanswered_ms and quiet.is_quiet(outcome):
            return outcome, other
        other.ask()


def _exchange(
    sender: socket.socket, left: memoryview, received: bytearray, outcome: str, *, is_readable: bool
) -> tuple[str, memoryview]:
    """Send and receive what can be; return the outcome so far and what is left to be sent."""
    try:
        if len(left):
            left = left[sender.send(left) :]
        if is_readable:
            data = sender.recv(1 << 20)
            if not data:
                return "closed" if outcome == "silent" else outcome, left[len(left) :]
            received += data[:4]
            outcome = "answered"
    except BlockingIOError:
        pass
    except OSError:
        return "closed", left[len(left) :]
    return outcome, left
