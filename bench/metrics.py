"""The cost of the page of metrics to a broker: CPU for a million records with the page and without it, and of a scrape.

    PYTHONPATH=tests/compat python bench/metrics.py --rounds 5 --records 150000

librdkafka writes records of 1 KB with its default settings; each round starts a broker of each kind, and the first
round warms up. Scrapes are measured behind the load, so that a slow machine, on which a round lasts longer, does not
count more of them. A topic has one partition: each replica adds ten lines.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from kavka_compat.ours import run_kavka
from kavka_compat.processes import process_cpu_s

_SCRAPES = 20
_INTERVAL_S = 15
"""Prometheus' usual interval."""


def costs(directory: Path, records: int, *, has_page: bool) -> tuple[float, float]:
    """Return the CPU of one broker for a million of records, and for one scrape."""
    directory.mkdir()
    settings = {"kavka.metrics.port": "0"} if has_page else {}
    with run_kavka(directory, settings) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        _produce(producer, 1000)
        before_s = process_cpu_s(broker.process.pid)
        _produce(producer, records)
        used_s = process_cpu_s(broker.process.pid) - before_s
        scrape_s = 0.0
        if has_page:
            before_s = process_cpu_s(broker.process.pid)
            _scrape(broker.process.text())
            scrape_s = (process_cpu_s(broker.process.pid) - before_s) / _SCRAPES
    return used_s * 1_000_000 / records, scrape_s


def _produce(producer: Producer, records: int) -> None:
    for _ in range(records):
        while True:
            try:
                producer.produce("t", b"x" * 1000)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def _scrape(text: str) -> None:
    found = re.search(r"metrics served url=(\S+)", text)
    assert found is not None
    for _ in range(_SCRAPES):
        with urllib.request.urlopen(found[1], timeout=30) as response:
            response.read()


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=150_000)
    given = parser.parse_args()
    found: dict[bool, list[float]] = {False: [], True: []}
    scrapes: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(given.rounds + 1):
            for has_page in (False, True) if number % 2 else (True, False):
                path = Path(directory) / f"{number}-{has_page}"
                cost, scrape_s = costs(path, given.records, has_page=has_page)
                if number:
                    found[has_page].append(cost)
                    scrapes += [scrape_s] if has_page else []
            print(f"round {number}: done", flush=True)
    for has_page, words in ((False, "without"), (True, "with")):
        each = sorted(found[has_page])
        shown = f"{statistics.median(each):.3f} s ({each[0]:.3f} to {each[-1]:.3f})"
        print(f"{words} the page: {shown} of CPU for a million records")
    ratio = statistics.median(found[True]) / statistics.median(found[False])
    least = min(found[True]) / min(found[False])
    print(f"ratio of the medians {ratio:.3f}, of the least {least:.3f}")
    scrape_s = statistics.median(scrapes)
    share = scrape_s / _INTERVAL_S
    print(
        f"a scrape: {scrape_s * 1000:.2f} ms of CPU, {share:.3%} of a core at one each {_INTERVAL_S} s"
    )


if __name__ == "__main__":
    main()
