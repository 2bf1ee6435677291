"""Start both brokers as a user would, and measure what happens before any load."""

from __future__ import annotations

import compileall
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from crc32c import crc32c

import kavka
from kavka_compat.apache import SHIPPED_BROKER, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from kavka_compat.raw import METADATA, RawConnection, produce_request, request, string

Launch = Callable[[Path], Broker]
"""Start a broker in a new directory; it need not be ready when this returns."""

_NO_SETTINGS: Mapping[str, str] = {}


def launch_apache(kafka: ApacheKafka) -> Launch:
    """Return a launcher of Apache Kafka with the options of its scripts; formatting is not timed."""

    def launch(directory: Path) -> Broker:
        directory.mkdir(parents=True)
        port = kafka.format_kraft(directory, _NO_SETTINGS)
        return kafka.start_formatted(directory, port, SHIPPED_BROKER)

    return launch


def launch_ours(directory: Path, settings: Mapping[str, str] = _NO_SETTINGS) -> Broker:
    """Launch our broker with its defaults, but for the settings."""
    directory.mkdir(parents=True)
    return launch_kavka(directory, settings, free_port())


@contextmanager
def run_pair(
    directory: Path, kafka: ApacheKafka, settings: Mapping[str, str] = _NO_SETTINGS
) -> Iterator[dict[str, Broker]]:
    """Run one broker of each side, as their users would start them; ours with `settings`."""
    compile_ours()
    launchers: dict[str, Launch] = {
        "apache": launch_apache(kafka),
        "kavka": partial(launch_ours, settings=settings),
    }
    with ExitStack() as stack:
        brokers = {}
        for side, launch in launchers.items():
            broker = brokers[side] = launch(directory / side)
            stack.callback(broker.process.stop)
            wait_until_serving(broker)
        yield brokers


def compile_ours() -> None:
    """Compile our modules, as pip does with those that it installs: a checkout's may never have been.

    Where PYTHONDONTWRITEBYTECODE is set, every start of a checkout would compile each module again.
    """
    compileall.compile_dir(Path(kavka.__file__).parent, quiet=1)


def first_acknowledged_ms(launch: Launch, directory: Path) -> float:
    """Return the time from the start of the process to the first acknowledged record of a new topic."""
    broker = launch(directory)
    try:
        while time.monotonic() < broker.process.started + 60:
            try:
                with RawConnection.to(broker) as connection:
                    if _acknowledged(connection):
                        return (time.monotonic() - broker.process.started) * 1000
            except (OSError, struct.error):
                pass
            time.sleep(0.002)
        raise RuntimeError(f"no record was acknowledged within 60 s:\n{broker.process.text()}")
    finally:
        broker.process.stop()


def idle_cpu_percent(broker: Broker, seconds: float) -> float:
    """Return the share of one core that the broker uses while no client is connected."""
    before = broker.process.cpu_seconds()
    time.sleep(seconds)
    return (broker.process.cpu_seconds() - before) / seconds * 100


def wait_until_serving(broker: Broker) -> None:
    """Return when the broker accepts connections."""
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", broker.port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline or not broker.process.alive():
                raise
            time.sleep(0.02)


def _acknowledged(connection: RawConnection) -> bool:
    """Ask for the topic, which creates it, and produce one record; return whether it was acknowledged."""
    topic = "first"
    connection.send(request(METADATA, 1, struct.pack(">i", 1) + string(topic)))
    if connection.read_response() is None:
        return False
    connection.send(produce_request(topic, _one_record(), acks=1))
    response = connection.read_response()
    if response is None:
        return False
    position = 4 + 2 + len(topic) + 4 + 4
    return bool(struct.unpack(">h", response[1][position : position + 2])[0] == 0)


def _one_record() -> bytes:
    record = bytes([14, 0, 0, 0, 1, 2]) + b"v" + b"\x00"
    now = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + record
    head = struct.pack(">qiib", 0, 4 + 1 + 4 + len(tail), -1, 2)
    return head + struct.pack(">I", crc32c(tail)) + tail
