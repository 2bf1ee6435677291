"""The cost of metrics to a broker: throughput and CPU of Produce without `/metrics`, with it, and while it is scraped.

    PYTHONPATH=tests/compat python bench/metrics.py --rounds 30 --seconds 2

One broker with the page is loaded in windows, which alternate in each round; each round begins with another one:

    none      durations of requests are not measured, as in a broker without `kavka.metrics.port` (`switched_durations`)
    page      they are, and nobody reads the page
    1 s       the page is read each second, by a process of its own over one connection, as Prometheus does

librdkafka writes as fast as the broker takes it: `batches` has records of 1 KB with its default settings, `single` a
record of 100 bytes in each request, which is where a cost of each request shows. A ratio is of windows of one round;
printed are its median and its range. Beside the topic of the load there is one with `--partitions`, because each
replica adds ten lines to the page. All windows are written as JSON into bench/results.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from apache.results import print_now, write_results
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from switched_durations import switched_command

from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka
from kavka_compat.processes import process_cpu_s

_LOADS: dict[str, tuple[int, dict[str, Any]]] = {
    "batches": (1000, {}),
    "single": (
        100,
        {"batch.num.messages": 1, "linger.ms": 0, "queue.buffering.max.messages": 5000},
    ),
}
"""Bytes of a record, and settings of librdkafka."""
_WAYS: dict[str, float | None] = {"none": None, "page": None, "1 s": 1}
"""Seconds from one scrape to the next."""
_SCRAPES = 20
_USUAL_S = 15
"""Seconds between the scrapes of a usual Prometheus: too long to be measured in a window."""
_SETTINGS = {
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(256 << 20),
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}
"""A broker is as fast as it is asked to be: what it keeps is bounded."""


class Window(NamedTuple):
    """The measures of one way in one round."""

    records_per_second: float
    cpu_us_per_record: float
    scrapes_ms: list[float]


def scrape(url: str, interval_s: float, seconds: float) -> None:
    """Read the page again and again over one connection, and print how long each took, in milliseconds."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    connection.connect()
    print("connected", flush=True)
    began, took = time.monotonic(), []
    due = began + interval_s / 2
    while due < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        before = time.perf_counter()
        connection.request("GET", address.path)
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        took.append((time.perf_counter() - before) * 1000)
        due += interval_s
    print(json.dumps(took))


@contextmanager
def scraped(url: str, interval_s: float | None, seconds: float) -> Iterator[list[float]]:
    """Scrape during the body; the list has the durations in milliseconds once it is left."""
    took: list[float] = []
    if interval_s is None:
        yield took
        return
    command = [sys.executable, __file__, "--scrape", url, str(interval_s), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        # Its start takes a second of CPU, which is no part of a scrape.
        assert child.stdout is not None
        assert child.stdout.readline() == "connected\n"
        yield took
        took += json.loads(child.stdout.readline())


def measured(broker: Broker, load: str, seconds: float, interval_s: float | None) -> Window:
    """Write to one broker for so long."""
    size, settings = _LOADS[load]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 1, **settings})
    _produce(producer, b"x" * size, 0.2)
    url = broker.metrics_url if interval_s is not None else ""
    pid = broker.process.pid
    with scraped(url, interval_s, seconds) as took:
        before_s, began = process_cpu_s(pid), time.monotonic()
        count = _produce(producer, b"x" * size, seconds)
        lasted = time.monotonic() - began
        used_s = process_cpu_s(pid) - before_s
    return Window(count / lasted, used_s * 1e6 / count, took)


def _produce(producer: Producer, value: bytes, seconds: float) -> int:
    """Write records for so long and wait until all are acknowledged; return their number."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            for _ in range(100):
                producer.produce("load", value)
                count += 1
        except BufferError:
            producer.poll(0.01)
    assert producer.flush(120) == 0
    return count


def idle_scrapes(broker: Broker) -> tuple[float, int]:
    """Return the CPU of a scrape of a broker without load, in milliseconds, and the size of its page in bytes."""
    address = urlsplit(broker.metrics_url)
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    size, before_s = 0, process_cpu_s(broker.process.pid)
    for _ in range(_SCRAPES):
        connection.request("GET", address.path)
        size = len(connection.getresponse().read())
    connection.close()
    return (process_cpu_s(broker.process.pid) - before_s) * 1000 / _SCRAPES, size


def _create(broker: Broker, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic("load", 1, 1), NewTopic("others", partitions, 1)]
    for future in admin.create_topics(topics).values():
        future.result(120)


def run(broker: Broker, rounds: int, seconds: float) -> dict[str, dict[str, list[Window]]]:
    """Return the windows by load and way; those of the first round are not among them."""
    found = {load: {way: list[Window]() for way in _WAYS} for load in _LOADS}
    ways = list(_WAYS)
    for number in range(rounds + 1):
        for load in _LOADS:
            first = number % len(ways)
            for way in ways[first:] + ways[:first]:
                os.kill(broker.process.pid, signal.SIGUSR1 if way == "none" else signal.SIGUSR2)
                window = measured(broker, load, seconds, _WAYS[way])
                if number:
                    found[load][way].append(window)
        print_now(f"round {number} of {rounds}" + ("" if number else ", which warms up"))
    return found


def _spread(values: list[float], form: str) -> str:
    """Return the median and the range."""
    shown = [format(each, form) for each in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def report(found: dict[str, dict[str, list[Window]]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| load | page | records/s | CPU, us a record | records/s ÷ none | CPU ÷ none |"
    yield "|---|---|--:|--:|--:|--:|"
    for load, ways in found.items():
        for way, windows in ways.items():
            pairs = list(zip(windows, ways["none"], strict=True))
            cells = (
                _spread([each.records_per_second for each in windows], ",.0f"),
                _spread([each.cpu_us_per_record for each in windows], ".2f"),
                _spread([a.records_per_second / b.records_per_second for a, b in pairs], ".3f"),
                _spread([a.cpu_us_per_record / b.cpu_us_per_record for a, b in pairs], ".3f"),
            )
            yield f"| {load} | {way} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="measured rounds (30)")
    parser.add_argument("--seconds", type=float, default=2, help="of each window (2)")
    parser.add_argument("--partitions", type=int, default=100, help="beside that of the load (100)")
    parser.add_argument("--scrape", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.scrape is not None:
        scrape(given.scrape[0], float(given.scrape[1]), float(given.scrape[2]))
        return
    settings = {**_SETTINGS, "kavka.metrics.port": "0"}
    with (
        tempfile.TemporaryDirectory() as directory,
        run_kavka(Path(directory), settings, switched_command) as broker,
    ):
        _create(broker, given.partitions)
        found = run(broker, given.rounds, given.seconds)
        scrape_ms, size = idle_scrapes(broker)
    print("\n".join(report(found)))
    under_load = [
        ms for ways in found.values() for w in ways.values() for each in w for ms in each.scrapes_ms
    ]
    print(f"a scrape without load: {scrape_ms:.2f} ms of CPU, a page of {size:,} bytes")
    print(f"  one each {_USUAL_S} s: {scrape_ms / _USUAL_S / 1000:.3%} of a core")
    print(f"{len(under_load)} scrapes under load took {_spread(under_load, '.1f')} ms")
    windows = {
        load: {way: [each._asdict() for each in of_way] for way, of_way in ways.items()}
        for load, ways in found.items()
    }
    facts = {"seconds": given.seconds, "partitions": given.partitions, "windows": windows}
    scrapes = {"scrape_cpu_ms": scrape_ms, "page_bytes": size}
    print(write_results("metrics", given.rounds, False, {**facts, **scrapes}))


if __name__ == "__main__":
    main()
