"""What the page of metrics costs a broker: CPU for a million records, with the page, scraped, and without it, in turns.

    PYTHONPATH=tests/compat python bench/metrics.py --rounds 5 --records 100000

librdkafka writes records of 1 KB with its default settings. Each round starts a broker of each kind; the first round
warms up. A scrape comes every two seconds, seven times as often as Prometheus' default of 15.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import threading
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from kavka_compat.ours import run_kavka

_SCRAPE_S = 2.0


def cpu_s_per_million(directory: Path, records: int, *, has_page: bool) -> float:
    """Return the CPU of one broker that takes so many records, for a million."""
    directory.mkdir()
    settings = {"kavka.metrics.port": "0"} if has_page else {}
    with run_kavka(directory, settings) as broker:
        stop = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(broker.process.text(), stop))
        if has_page:
            scraper.start()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        _produce(producer, 1000)
        before_s = _cpu_s(broker.process.pid)
        _produce(producer, records)
        used_s = _cpu_s(broker.process.pid) - before_s
        stop.set()
        if has_page:
            scraper.join()
    return used_s * 1_000_000 / records


def _cpu_s(pid: int) -> float:
    """Return the CPU of all threads, in the scheduler's nanoseconds; ticks of 10 ms are too coarse."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _produce(producer: Producer, records: int) -> None:
    for _ in range(records):
        while True:
            try:
                producer.produce("t", b"x" * 1000)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def _scrape(text: str, stop: threading.Event) -> None:
    found = re.search(r"metrics served url=(\S+)", text)
    assert found is not None
    while not stop.wait(_SCRAPE_S):
        with urllib.request.urlopen(found[1], timeout=30) as response:
            response.read()


def main() -> None:
    """Print each round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000)
    given = parser.parse_args()
    costs: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(given.rounds + 1):
            for has_page in (False, True) if number % 2 else (True, False):
                path = Path(directory) / f"{number}-{has_page}"
                cost = cpu_s_per_million(path, given.records, has_page=has_page)
                if number:
                    costs[has_page].append(cost)
            print(f"round {number}: done", flush=True)
    for has_page, words in ((False, "without"), (True, "with, scraped")):
        each = sorted(costs[has_page])
        shown = f"{statistics.median(each):.3f} s ({each[0]:.3f} to {each[-1]:.3f})"
        print(f"{words}: {shown} of CPU for a million records")
    ratio = statistics.median(costs[True]) / statistics.median(costs[False])
    print(
        f"ratio of the medians {ratio:.3f}, of the least {min(costs[True]) / min(costs[False]):.3f}"
    )


if __name__ == "__main__":
    main()
