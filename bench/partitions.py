"""Cost of partitions: one lone broker with 1,000, 5,000 and 10,000 of them, from the creation to a stop.

    COUNTS=1000,5000 ROUNDS=3 SHAPE=many make bench-partitions

Shapes: `many` is topics of 10 partitions, `one` a single topic. The steps, each with its wall time, most of them with
the CPU time of the broker:

    creation                          until Metadata shows a leader everywhere
    Metadata of everything            median of some, and the longest ApiVersions of another connection meanwhile
    idle                              over 10 s
    stop of new, empty logs; start    every log is new to the medium
    one record in each; kill -9; start
    stop after records; start
    stop after nothing                none of the logs has changed
    deletion                          of every topic, until Metadata shows none

Each round has a new broker. At the end the medians are printed, and all samples are in a file of bench/results.

Run: PYTHONPATH=bench:tests/compat .venv/bin/python bench/partitions.py [--counts 1000,5000] [--rounds 3] [--shape many]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apache.report import SampledLines, as_json, table
from apache.results import Parts, print_now
from apache.rounds import end_on_sigterm

from kavka.client import Producer
from kavka.client.admin import Admin, NewTopic
from kavka.wire.frame import decode_response, encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataResponse
from kavka_compat.processes import process_cpu_s

METADATA_VERSION = 12
IDLE_S = 10
ASKED = 15
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Broker:
    """`kavka server-start` as a process of its own."""

    def __init__(self, directory: Path) -> None:
        """Start nothing yet."""
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self) -> float:
        """Start it; return the seconds until its ready line."""
        overrides = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self._directory / "data"),
            "kavka.log.level": "ERROR",
        }
        words = [word for pair in overrides.items() for word in ("--override", "=".join(pair))]
        began = time.monotonic()
        with (self._directory / "errors").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kavka", "server-start", *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if " ready: " not in line:
            raise RuntimeError(f"the broker did not start: {line} {self._directory}/errors")
        self.port = int(line.split(" ready: ")[1].split(" in ")[0].rpartition(":")[2])
        return time.monotonic() - began

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """End it; return the seconds until it was gone."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(how)
        self._process.wait()
        return time.monotonic() - began

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU, of the user and of the system, since its start."""
        assert self._process is not None
        return process_cpu_s(self._process.pid)

    @property
    def resident_mib(self) -> float:
        """MiB of memory."""
        return int(self._proc("statm").split()[1]) * _PAGE / 2**20

    @property
    def open_files(self) -> int:
        """Number of descriptors that it holds."""
        assert self._process is not None
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def _proc(self, name: str) -> str:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/{name}").read_text()


class Wire:
    """A connection on which requests are asked one after another, without decoding what is not looked at."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self._socket = socket.create_connection(("127.0.0.1", port), 120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        """Return the response's frame, without its size."""
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("the broker closed the connection")
            view = view[count:]
        return bytes(buffer)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _frame(message: Any, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode_request(message, version, 1, "bench"))  # type: ignore[arg-type]


EVERYTHING = _frame(MetadataRequest(topics=None), METADATA_VERSION)
VERSIONS = _frame(ApiVersionsRequest(), 0)


class Run:
    """A broker with so many partitions; what is measured is printed, and kept as samples of lines."""

    def __init__(self, broker: Broker, count: int, lines: SampledLines) -> None:
        self.broker = broker
        self.count = count
        self._lines = lines

    def keep(self, what: str, unit: str, value: float) -> None:
        """Keep one sample."""
        self._lines.add(f"{self.count:,} partitions: {what}", unit, value)

    def show(self, what: str, seconds: float, cpu_s: float | None = None, more: str = "") -> None:
        """Print and keep how long something took."""
        self.keep(what, "s", seconds)
        if cpu_s is not None:
            self.keep(f"{what}, CPU", "s", cpu_s)
        cpu = "" if cpu_s is None else f"  CPU {cpu_s:7.2f} s"
        print(f"  {what:<34} {seconds:8.3f} s{cpu}{'  ' if more else ''}{more}", flush=True)

    @contextmanager
    def measured(self, what: str) -> Iterator[None]:
        """Show the seconds and the broker's CPU of what is done inside."""
        began, cpu_s = time.monotonic(), self.broker.cpu_s
        yield
        self.show(what, time.monotonic() - began, self.broker.cpu_s - cpu_s)


def led(port: int) -> int:
    """Return how many partitions have a leader."""
    wire = Wire(port)
    _, response = decode_response(MetadataResponse, METADATA_VERSION, wire.ask(EVERYTHING))
    wire.close()
    return sum(row.leader_id >= 0 for topic in response.topics for row in topic.partitions)


def wait_for(done: Callable[[], bool]) -> None:
    """Return when it is so."""
    while not done():
        time.sleep(0.1)


def _admin(port: int) -> Admin:
    return Admin({"bootstrap.servers": f"127.0.0.1:{port}", "request.timeout.ms": 600_000})


async def create(port: int, topics: list[NewTopic]) -> None:
    """Create topics, a hundred in a request."""
    async with _admin(port) as admin:
        for at in range(0, len(topics), 100):
            outcomes = await admin.create_topics(topics[at : at + 100], timeout_ms=600_000)
            for outcome in outcomes.values():
                if isinstance(outcome, Exception):
                    raise outcome


async def delete(port: int, topics: list[NewTopic]) -> None:
    """Delete topics, a hundred in a request."""
    async with _admin(port) as admin:
        for at in range(0, len(topics), 100):
            names = [topic.name for topic in topics[at : at + 100]]
            for outcome in (await admin.delete_topics(names, timeout_ms=600_000)).values():
                if outcome is not None:
                    raise outcome


async def fill(port: int, topics: list[NewTopic]) -> None:
    """Write one record to each partition."""
    async with Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"}) as producer:
        for topic in topics:
            for partition in range(topic.partitions):
                producer.append(topic.name, value=b"x" * 100, partition=partition)
        await producer.flush()


def longest_beside(port: int, work: Callable[[], None]) -> float:
    """Return the longest seconds that ApiVersions on another connection took while `work` ran."""
    over = threading.Event()
    longest = [0.0]

    def ask() -> None:
        wire = Wire(port)
        while not over.is_set():
            began = time.perf_counter()
            wire.ask(VERSIONS)
            longest[0] = max(longest[0], time.perf_counter() - began)
            time.sleep(0.0005)
        wire.close()

    thread = threading.Thread(target=ask)
    thread.start()
    work()
    over.set()
    thread.join()
    return longest[0]


def metadata(run: Run) -> None:
    """Ask for everything some times."""
    wire = Wire(run.broker.port)
    size = len(wire.ask(EVERYTHING))
    began_cpu, seconds = run.broker.cpu_s, []
    for _ in range(ASKED):
        began = time.perf_counter()
        wire.ask(EVERYTHING)
        seconds.append(time.perf_counter() - began)
    cpu_s = (run.broker.cpu_s - began_cpu) / ASKED

    def again() -> None:
        for _ in range(ASKED):
            wire.ask(EVERYTHING)

    beside = longest_beside(run.broker.port, again)
    wire.close()
    run.show("Metadata of everything", statistics.median(seconds), cpu_s, f"({size} bytes)")
    run.show("longest ApiVersions beside it", beside)


def idle(run: Run, what: str) -> None:
    """Show the CPU of an idle broker, and what it holds."""
    broker = run.broker
    time.sleep(2)
    cpu_s = broker.cpu_s
    time.sleep(IDLE_S)
    used, memory, files = (
        (broker.cpu_s - cpu_s) / IDLE_S * 100,
        broker.resident_mib,
        broker.open_files,
    )
    run.keep(what, "% of a core", used)
    run.keep(f"{what}: memory", "MiB", memory)
    run.keep(f"{what}: open files", "files", files)
    print(f"  {what:<34} {used:8.2f} % CPU  {memory:.0f} MiB, {files} files open", flush=True)


def one_count(count: int, shape: str, per_topic: int, directory: Path, lines: SampledLines) -> None:
    """Go through all steps with so many partitions, in a directory that stays.

    ext4 searches long for a free inode where many were freed in the last minutes: what one count leaves behind must
    not be removed before the next.
    """
    if shape == "one":
        topics = [NewTopic("t", count, 1)]
    else:
        topics = [NewTopic(f"t-{number}", per_topic, 1) for number in range(count // per_topic)]
    broker = Broker(directory)
    try:
        steps(Run(broker, count, lines), topics)
    finally:
        broker.stop(signal.SIGKILL)


def steps(run: Run, topics: list[NewTopic]) -> None:
    """Go through all steps."""
    broker = run.broker
    broker.start()
    run.keep("memory before", "MiB", broker.resident_mib)
    with run.measured("creation"):
        asyncio.run(create(broker.port, topics))
        wait_for(lambda: led(broker.port) == run.count)
    metadata(run)
    idle(run, "idle after creation")
    run.show("clean stop, new empty logs", broker.stop())
    start(run, "start after it, empty logs")
    with run.measured("one record in each"):
        asyncio.run(fill(broker.port, topics))
    idle(run, "idle with records")
    broker.stop(signal.SIGKILL)
    start(run, "start after kill -9")
    run.show("clean stop after it", broker.stop())
    start(run, "start after that")
    run.show("clean stop, nothing changed", broker.stop())
    start(run, "start after nothing changed")
    describe(run)
    with run.measured("deletion"):
        asyncio.run(delete(broker.port, topics))
        wait_for(lambda: led(broker.port) == 0)
    run.show("clean stop after deletion", broker.stop())


def start(run: Run, what: str) -> None:
    """Show how long a start takes until its ready line, and until all partitions are led."""
    broker = run.broker
    began = time.monotonic()
    ready = broker.start()
    wait_for(lambda: led(broker.port) == run.count)
    took = time.monotonic() - began
    run.keep(f"{what}, until all are led", "s", took)
    more = f"all led after {took:.2f} s; {broker.resident_mib:.0f} MiB"
    run.show(what, ready, broker.cpu_s, more)


def describe(run: Run) -> None:
    """Show how long `kavka topics --describe` takes, with its own start."""
    words = ["topics", "--bootstrap-server", f"127.0.0.1:{run.broker.port}", "--describe"]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "kavka", *words], check=True, stdout=subprocess.DEVNULL)
    run.show("kavka topics --describe", time.monotonic() - began)


def main() -> None:
    """Run the rounds of each count, print the medians, and write all samples."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--counts", help="(default 1000,5000,10000; quick 1000)")
    parser.add_argument("--rounds", type=int, help="rounds of each count (default 3, quick 1)")
    parser.add_argument("--quick", action="store_true", help="1000 partitions, one round")
    parser.add_argument("--shape", choices=("many", "one"), default="many")
    parser.add_argument("--partitions-per-topic", type=int, default=10)
    parser.add_argument("--directory", help="where the logs are, on the disk to be measured")
    given = parser.parse_args()
    end_on_sigterm()
    counts = given.counts or ("1000" if given.quick else "1000,5000,10000")
    rounds, lines = given.rounds or (1 if given.quick else 3), SampledLines()
    names = {
        f"{count} partitions, round {number + 1}": int(count)
        for count in counts.split(",")
        for number in range(rounds)
    }

    def measured(_: object) -> dict[str, object]:
        each = given.partitions_per_topic
        shape = f"topics of {each} partitions" if given.shape == "many" else "one topic"
        return {"lines": as_json(lines), "note": f"Shape: {shape}.", "warm_up": False}

    with (
        tempfile.TemporaryDirectory(prefix="kavka-partitions-", dir=given.directory) as path,
        Parts("partitions", rounds, given.quick, names, measured) as parts,
    ):
        for place, (name, count) in enumerate(names.items()):
            print_now(name)
            directory = Path(path, str(place))
            directory.mkdir()
            one_count(count, given.shape, given.partitions_per_topic, directory, lines)
            parts.add(name, [])
    print(f"\n{table(lines, '')}\n\n{rounds} rounds, medians; all samples: {parts.path}")


if __name__ == "__main__":
    main()
