"""Idle connections, slow readers, half-sent requests, half-open handshakes: the broker's memory, and others' latency.

    COUNT=10000 ROUNDS=3 make bench-connections

One broker in a process of its own. A client sends one small Metadata request after the other, and one record after the
other, alone; then beside

    idle      connections that have asked for versions once
    half      connections that have sent the first half of a request of 64 KiB
    slow      connections that have asked for a mebibyte of records sixteen times, and read none of it
    hello     connections to a listener with TLS that have sent a ClientHello and nothing more, with ten minutes for
              it; beyond `kavka.ssl.max.handshakes` the broker gives up the oldest, so all come and no more stay

Printed are the broker's resident memory, and the median and the 99th percentile of both requests and of a whole TLS
handshake, in milliseconds; the client of that has another address, 127.0.0.2. Last come the first and the longest of
five handshakes right after the ClientHellos, while the broker still signs for these. Each round has a new broker; at
the end the medians of the rounds are printed, and all samples written into bench/results.
"""

from __future__ import annotations

import argparse
import resource
import socket
import ssl
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from apache.report import SampledLines, as_json, table
from apache.results import Parts, print_now
from apache.rounds import end_on_sigterm

from kavka.wire.frame import encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from kavka.wire.records.batch import BatchBuilder
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from support.certificates import Authority

_TOPIC = "t"
_HALF = struct.pack(">i", 65_536) + b"\0\0\0\x09" + bytes(32_760)


def framed(request: Any, version: int) -> bytes:
    """Return a request as it is sent."""
    parts = encode_request(request, version, 1, "bench")
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


def call(sock: socket.socket, data: bytes) -> bytes:
    """Send a request and return its response."""
    sock.sendall(data)
    size = int.from_bytes(_exactly(sock, 4))
    return _exactly(sock, size)


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise ConnectionError("closed")
        found += part
    return bytes(found)


def produce(size: int, acks: int = 1) -> bytes:
    """Return a Produce of one record."""
    builder = BatchBuilder()
    builder.append(None, b"x" * size, int(time.time() * 1000))
    row = ProduceRequestPartition(index=0, records=builder.build())
    topics = [ProduceRequestTopic(name=_TOPIC, partition_data=[row])]
    return framed(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics), 9)


def fetch(size: int = 1 << 20) -> bytes:
    """Return a Fetch of so many bytes, or of one batch, from the beginning."""
    row = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
    topics = [FetchRequestTopic(topic=_TOPIC, partitions=[row])]
    return framed(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=size, topics=topics), 11)


class Latency(NamedTuple):
    """Milliseconds of many requests."""

    median: float
    high: float
    """The 99th percentile."""

    @classmethod
    def of(cls, times: list[float]) -> Latency:
        ordered = sorted(times)
        return cls(statistics.median(ordered), ordered[int(len(ordered) * 0.99)])


class Bench:
    """A broker, and the connections to it."""

    def __init__(self, port: int, pid: int, tls_port: int = 0) -> None:
        """Connect the client that is measured; there is a listener with TLS if it has a port."""
        self._port = port
        self._tls_port = tls_port
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._pid = pid
        self._others: list[socket.socket] = []
        self._client = self.connect()

    def connect(self) -> socket.socket:
        """Open a connection."""
        sock = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def prepare(self) -> None:
        """Make a topic with sixteen mebibytes."""
        topic = CreateTopicsRequestTopic(name=_TOPIC, num_partitions=1, replication_factor=1)
        call(self._client, framed(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5))
        for _ in range(16):
            call(self._client, produce(1_000_000))

    def hold(self, count: int, begin: Callable[[socket.socket], None]) -> None:
        """Open so many more connections, and leave each as `begin` does."""
        for _ in range(count):
            sock = self.connect()
            self._others.append(sock)
            begin(sock)

    def handshake_ms(self) -> float:
        """Return how long a new client of another address needs until it may send a request."""
        began = time.perf_counter()
        to = ("127.0.0.1", self._tls_port)
        sock = socket.create_connection(to, timeout=60, source_address=("127.0.0.2", 0))
        with self._context.wrap_socket(sock):
            return (time.perf_counter() - began) * 1000

    def hello(self, count: int) -> list[float]:
        """Send so many ClientHellos, on connections that all come at once; return handshakes of others meanwhile."""
        outgoing = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
        first = outgoing.read()
        opened = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", self._tls_port), timeout=60)
            opened.append(sock)
        for sock in opened:
            with suppress(ConnectionError):  # given up by the broker already
                sock.sendall(first)
        self._others += opened
        meanwhile = [self.handshake_ms() for _ in range(5)]
        for sock in opened:
            with suppress(ConnectionError):
                sock.recv(1, socket.MSG_PEEK)  # the broker has answered it, or closed it
        return meanwhile

    def memory_mib(self) -> float:
        """Return the resident memory of the broker."""
        text = Path(f"/proc/{self._pid}/status").read_text()
        kib = next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))
        return int(kib) / 1024

    def measure(self, lines: SampledLines, what: str, calls: int) -> None:
        """Measure memory and latencies: keep them as samples of lines, and print them."""
        metadata, record = framed(MetadataRequest(topics=[]), 9), produce(100)
        found = {}
        for name, data in (("Metadata", metadata), ("Produce", record)):
            times = []
            for _ in range(calls):
                began = time.perf_counter()
                call(self._client, data)
                times.append((time.perf_counter() - began) * 1000)
            found[name] = Latency.of(times)
        handshakes = [self.handshake_ms() for _ in range(max(1, calls // 20))]
        found["TLS handshake"] = Latency.of(handshakes)
        memory = self.memory_mib()
        lines.add(f"{what}: memory of the broker", "MiB", memory)
        for name, latency in found.items():
            lines.add(f"{what}: {name}, median", "ms", latency.median)
            lines.add(f"{what}: {name}, 99th percentile", "ms", latency.high)
        cells = "  ".join(f"{each.median:7.2f} {each.high:7.2f}" for each in found.values())
        print(f"{what:42} {memory:8.1f}  {cells}", flush=True)

    def close(self) -> None:
        """Close all connections."""
        for sock in (self._client, *self._others):
            sock.close()


@contextmanager
def broker(directory: Path) -> Iterator[Bench]:
    """Run a broker that may have as many files open as this process, with a listener in plain text and one with TLS."""
    port, tls_port = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": Authority().sign("broker").write_pem(directory / "broker.pem"),
        "kavka.ssl.handshake.timeout.ms": "600000",  # half-open ones stay while the others are measured
    }
    running = launch_kavka(directory, settings, port)
    try:
        running.process.wait_for("ready: ", 30)
        yield Bench(port, running.process.pid, tls_port)
    finally:
        running.process.stop()


def one_round(given: argparse.Namespace, lines: SampledLines) -> None:
    """Measure a new broker, with more and more connections."""
    versions, asked = framed(ApiVersionsRequest(), 0), fetch() * 16

    def ask_for_versions(sock: socket.socket) -> None:
        call(sock, versions)

    with tempfile.TemporaryDirectory() as directory, broker(Path(directory)) as bench:
        bench.prepare()
        heads = (f"{head:>15}" for head in ("Metadata p50 p99", "Produce p50 p99", "TLS p50 p99"))
        print(f"{'':42} {'RSS MiB':>8}  {'  '.join(heads)}")
        bench.measure(lines, "alone", given.calls)
        began = time.perf_counter()
        bench.hold(given.count, ask_for_versions)
        lines.add(
            "connections opened", "connections/s", given.count / (time.perf_counter() - began)
        )
        bench.measure(lines, f"beside {given.count:,} idle", given.calls)
        bench.hold(given.slow, lambda sock: sock.sendall(_HALF))
        bench.measure(lines, f"and {given.slow} half-sent requests", given.calls)
        bench.hold(given.slow, lambda sock: sock.sendall(asked))
        bench.measure(lines, f"and {given.slow} slow readers", given.calls)
        burst = bench.hello(given.hello)
        bench.measure(lines, f"and {given.hello:,} half-open TLS handshakes", given.calls)
        lines.add("TLS handshake right after the ClientHellos, first", "ms", burst[0])
        lines.add("TLS handshake right after the ClientHellos, longest", "ms", max(burst))
        bench.close()
        time.sleep(2)


def main() -> None:
    """Run the rounds, print the medians, and write all samples."""
    parser = argparse.ArgumentParser(description="Idle connections and slow readers at once.")
    parser.add_argument("--rounds", type=int, help="rounds (default 3, quick 1)")
    parser.add_argument("--quick", action="store_true", help="this is no run to publish")
    parser.add_argument("--count", type=int, default=10_000, help="idle connections")
    parser.add_argument(
        "--slow", type=int, default=100, help="slow readers, and half-sent requests"
    )
    parser.add_argument("--hello", type=int, default=5000, help="half-open TLS handshakes")
    parser.add_argument("--calls", type=int, default=2000, help="requests that are measured")
    given = parser.parse_args()
    end_on_sigterm()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rounds, lines = given.rounds or (1 if given.quick else 3), SampledLines()
    names = [f"round {number + 1}" for number in range(rounds)]

    def measured(_: object) -> dict[str, object]:
        return {"lines": as_json(lines), "warm_up": False}

    with Parts("connections", rounds, given.quick, names, measured) as parts:
        for name in names:
            print_now(f"{name} of {rounds}")
            one_round(given, lines)
            parts.add(name, [])
    print(f"\n{table(lines, '')}\n\n{rounds} rounds, medians; all samples: {parts.path}")


if __name__ == "__main__":
    main()
