"""Cost of partitions: one lone broker with 1,000, 5,000 and 10,000 of them, from the creation to a stop.

    COUNTS=1000,5000 SHAPE=many make bench-partitions

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

Run: PYTHONPATH=tests/compat .venv/bin/python bench/partitions.py [--counts 1000,5000] [--shape many] [--directory PATH]
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

from kavka.client import Producer
from kavka.client.admin import Admin, NewTopic
from kavka.wire.frame import decode_response, encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataResponse
from kavka_compat.processes import process_cpu_s

METADATA_VERSION = 12
IDLE_S = 10
ROUNDS = 15
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


def show(what: str, seconds: float, cpu_s: float | None = None, more: str = "") -> None:
    """Print one measure."""
    cpu = "" if cpu_s is None else f"  CPU {cpu_s:7.2f} s"
    print(f"  {what:<34} {seconds:8.3f} s{cpu}{'  ' if more else ''}{more}", flush=True)


@contextmanager
def measured(broker: Broker, what: str) -> Iterator[None]:
    """Print the seconds and the broker's CPU of what is done inside."""
    began, cpu_s = time.monotonic(), broker.cpu_s
    yield
    show(what, time.monotonic() - began, broker.cpu_s - cpu_s)


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


def metadata(broker: Broker) -> None:
    """Ask for everything some times."""
    wire = Wire(broker.port)
    size = len(wire.ask(EVERYTHING))
    began_cpu, seconds = broker.cpu_s, []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        wire.ask(EVERYTHING)
        seconds.append(time.perf_counter() - began)
    cpu_s = (broker.cpu_s - began_cpu) / ROUNDS

    def again() -> None:
        for _ in range(ROUNDS):
            wire.ask(EVERYTHING)

    beside = longest_beside(broker.port, again)
    wire.close()
    more = f"({cpu_s * 1000:.1f} ms CPU each; {size} bytes; another's ApiVersions up to {beside * 1000:.1f} ms)"
    show("Metadata of everything", statistics.median(seconds), None, more)


def idle(broker: Broker, what: str) -> None:
    """Print the CPU of an idle broker, and what it holds."""
    time.sleep(2)
    cpu_s = broker.cpu_s
    time.sleep(IDLE_S)
    used = (broker.cpu_s - cpu_s) / IDLE_S * 100
    print(
        f"  {what:<34} {used:8.2f} % CPU  {broker.resident_mib:.0f} MiB, {broker.open_files} files open",
        flush=True,
    )


def one_count(count: int, shape: str, per_topic: int, directory: Path) -> None:
    """Go through all steps with so many partitions, in a directory that stays.

    ext4 searches long for a free inode where many were freed in the last minutes: what one count leaves behind must
    not be removed before the next.
    """
    print(f"{count} partitions, {shape}", flush=True)
    if shape == "one":
        topics = [NewTopic("t", count, 1)]
    else:
        topics = [NewTopic(f"t-{number}", per_topic, 1) for number in range(count // per_topic)]
    broker = Broker(directory)
    try:
        steps(broker, topics, count)
    finally:
        broker.stop(signal.SIGKILL)


def steps(broker: Broker, topics: list[NewTopic], count: int) -> None:
    """Go through all steps."""
    broker.start()
    print(f"  {'memory before':<34} {broker.resident_mib:8.0f} MiB")
    with measured(broker, "creation"):
        asyncio.run(create(broker.port, topics))
        wait_for(lambda: led(broker.port) == count)
    metadata(broker)
    idle(broker, "idle after creation")
    show("clean stop, new empty logs", broker.stop())
    start(broker, "start after it, empty logs", count)
    with measured(broker, "one record in each"):
        asyncio.run(fill(broker.port, topics))
    idle(broker, "idle with records")
    broker.stop(signal.SIGKILL)
    start(broker, "start after kill -9", count)
    show("clean stop after it", broker.stop())
    start(broker, "start after it", count)
    show("clean stop, nothing changed", broker.stop())
    start(broker, "start after it", count)
    describe(broker)
    with measured(broker, "deletion"):
        asyncio.run(delete(broker.port, topics))
        wait_for(lambda: led(broker.port) == 0)
    show("clean stop", broker.stop())


def start(broker: Broker, what: str, count: int) -> None:
    """Print how long a start takes until its ready line, and until all partitions are led."""
    began = time.monotonic()
    ready = broker.start()
    wait_for(lambda: led(broker.port) == count)
    took = time.monotonic() - began
    show(what, ready, broker.cpu_s, f"all led after {took:.2f} s; {broker.resident_mib:.0f} MiB")


def describe(broker: Broker) -> None:
    """Print how long `kavka topics --describe` takes, with its own start."""
    words = ["topics", "--bootstrap-server", f"127.0.0.1:{broker.port}", "--describe"]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "kavka", *words], check=True, stdout=subprocess.DEVNULL)
    show("kavka topics --describe", time.monotonic() - began)


def main() -> None:
    """Print the measures for each count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--counts", default="1000,5000,10000")
    parser.add_argument("--shape", choices=("many", "one"), default="many")
    parser.add_argument("--partitions-per-topic", type=int, default=10)
    parser.add_argument("--directory", help="where the logs are, on the disk to be measured")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kavka-partitions-", dir=given.directory) as path:
        for count in map(int, given.counts.split(",")):
            directory = Path(path, str(count))
            directory.mkdir()
            one_count(count, given.shape, given.partitions_per_topic, directory)


if __name__ == "__main__":
    main()
