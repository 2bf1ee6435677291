"""Cost of a console that keeps the history of a large cluster: memory, processor, file, and the time of its pages.

One broker has TOPICS of 10 partitions, and GROUPS that have committed offsets in 20 partitions each, of which half are
behind; records come into some topics all the time. A console looks at it every 20 seconds, as it does by default, with
the default rules. Reported are its resident memory, the share of one core over the time, and the pages' times.

The bounds: 300 MB and 5% of a core at 1,000 topics and 500 groups, a page in under 1 s.

Run: PYTHONPATH=tests/compat .venv/bin/python bench/console.py [--topics 1000] [--groups 500] [--seconds 300]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from kavka.client import Producer, TopicPartition
from kavka.client.admin import Admin, NewTopic
from kavka.testing.local_cluster import LocalCluster
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running

PARTITIONS = 10
OF_A_GROUP = 20
HISTORY = "history.sqlite"
PATHS = (
    "/",
    "/topics",
    "/groups",
    "/group?id=group-1",
    "/history?kind=group&name=group-1",
    "/alerts",
)


def start_console(bootstrap: str, directory: Path) -> tuple[Running, str]:
    """Start `kavka console`, and return it with its address when it serves."""
    words = ["--bootstrap-server", bootstrap, "--port", "0", "--history", str(directory / HISTORY)]
    console = Running(kavka_command("console", *words), directory / "console.out")
    return console, console.wait_for("http://", 60).split()[2]


def page_s(url: str) -> float:
    """Return the seconds of a page."""
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as response:
        response.read()
    return time.monotonic() - began


async def fill(bootstrap: str, topics: int, groups: int) -> None:
    """Create topics, write a record into each partition, and commit offsets of groups."""
    settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": 300_000}
    async with Admin(settings) as admin, Producer({"bootstrap.servers": bootstrap}) as producer:
        for begin in range(0, topics, 100):
            names = [f"topic-{n}" for n in range(begin, min(begin + 100, topics))]
            await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
            for name in names:
                for part in range(PARTITIONS):
                    producer.append(name, b"v" * 100, partition=part)
            await producer.flush()
        everything = [
            TopicPartition(f"topic-{n}", p) for n in range(topics) for p in range(PARTITIONS)
        ]
        for number in range(groups):
            chosen = [
                everything[(number * OF_A_GROUP + k) % len(everything)] for k in range(OF_A_GROUP)
            ]
            await admin.alter_group_offsets(
                f"group-{number}", {at: k % 2 for k, at in enumerate(chosen)}
            )


async def write(bootstrap: str, topics: int, stop: threading.Event) -> None:
    """Write to a tenth of the topics until the end."""
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        while not stop.is_set():
            for number in range(0, topics, 10):
                producer.append(f"topic-{number}", b"v" * 100, partition=number // 10 % PARTITIONS)
            await producer.flush()
            await asyncio.sleep(1)


def measure(given: argparse.Namespace, directory: Path) -> None:
    """Run the broker and the console, and print what the console took."""
    with LocalCluster(directory / "broker", brokers=1) as cluster:
        bootstrap = cluster.bootstrap_servers
        asyncio.run(fill(bootstrap, given.topics, given.groups))
        stop = threading.Event()
        writing = threading.Thread(target=lambda: asyncio.run(write(bootstrap, given.topics, stop)))
        writing.start()
        console, address = start_console(bootstrap, directory)
        try:
            print(
                f"{given.topics} topics of {PARTITIONS} partitions, {given.groups} groups of {OF_A_GROUP}"
            )
            shares, largest = [], 0.0
            time.sleep(10)
            for _ in range(max(1, given.seconds // 60)):
                before, began = console.cpu_seconds(), time.monotonic()
                time.sleep(min(60, given.seconds))
                shares.append((console.cpu_seconds() - before) / (time.monotonic() - began))
                largest = max(largest, console.resident_bytes() / 1e6)
            listed = ", ".join(f"{share:.1%}" for share in shares)
            print(f"of a core, in each minute: {listed}; memory at most {largest:.0f} MB")
            for path in PATHS:
                times = sorted(page_s(f"{address}{path}") for _ in range(5))
                print(f"{path}: median {statistics.median(times):.2f} s, longest {times[-1]:.2f} s")
            print(f"memory after pages {console.resident_bytes() / 1e6:.0f} MB")
        finally:
            stop.set()
            writing.join()
            console.stop()
        print(f"file {(directory / HISTORY).stat().st_size / 1e6:.1f} MB")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(given, Path(directory))


if __name__ == "__main__":
    main()
