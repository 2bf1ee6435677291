"""Transactions of one record of 100 bytes, one after the other: how many a second, and how long a commit takes."""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from apache.report import Line
from apache.rounds import run_rounds
from apache.topics import run_topic
from confluent_kafka import Producer

from kavka_compat.brokers import Broker
from transactions.pair import SIDES, java_program

RECORD_BYTES = 100
_PARTITIONS = 6
_PATIENCE_S = 60
_WARM_UP_S = 2.0
_SOURCE = Path(__file__).with_name("SmallTransactions.java")
_names = count()


@dataclass(frozen=True)
class Found:
    """The work of all producers of one run together."""

    transactions: int
    seconds: float
    commits_ms: list[float]
    """Duration of each call of commit, when the record was acknowledged."""


@dataclass(frozen=True)
class Sample:
    """The result of one run; a record is a transaction."""

    records_per_second: float
    median_ms: float
    last_hundredth_ms: float
    cpu_ms: float
    """Processor time of the broker for one transaction."""


Transact = Callable[[str, str, int, float], Found]
"""Works against bootstrap servers in a topic with so many producers for so many seconds."""


def measure(
    name: str,
    brokers: dict[str, Broker],
    transact: Transact,
    producers: int,
    seconds: float,
    rounds: int,
) -> list[Line]:
    """Return the lines of one client with so many producers."""

    def run(side: str) -> Sample:
        broker = brokers[side]
        with run_topic(broker, "small", _PARTITIONS) as topic:
            before = broker.process.cpu_seconds()
            found = transact(broker.bootstrap, topic, producers, seconds)
            used = broker.process.cpu_seconds() - before
        hundredths = statistics.quantiles(found.commits_ms, n=100)
        speed = found.transactions / found.seconds
        # the warm-up of the producers is work of the broker, too
        share = used / (speed * (found.seconds + _WARM_UP_S))
        return Sample(speed, hundredths[49], hundredths[98], share * 1000)

    about = f"transactions of 100 B, {producers} producer{'s' * (producers > 1)}, {name}"
    samples = run_rounds(about, SIDES, rounds, run)
    speed = {side: [s.records_per_second for s in samples[side]] for side in SIDES}
    median = {side: [s.median_ms for s in samples[side]] for side in SIDES}
    last = {side: [s.last_hundredth_ms for s in samples[side]] for side in SIDES}
    cpu = {side: [s.cpu_ms for s in samples[side]] for side in SIDES}
    return [
        Line(about, "transactions/s", speed, goal=1.0, more_is_better=True),
        Line(f"{about}: commit, median", "ms", median, goal=1.0),
        Line(f"{about}: commit, 99th percentile", "ms", last, goal=1.0),
        Line(f"{about}: broker CPU of one", "ms", cpu, goal=1.0),
    ]


def by_librdkafka(bootstrap: str, topic: str, producers: int, seconds: float) -> Found:
    """Work in threads of this process; they wait outside of the interpreter."""
    ready = threading.Barrier(producers)
    with ThreadPoolExecutor(producers) as pool:
        works = [pool.submit(_work, bootstrap, topic, seconds, ready) for _ in range(producers)]
    lists = [work.result() for work in works]
    commits = [one for some in lists for one in some]
    return Found(len(commits), seconds, commits)


def _work(bootstrap: str, topic: str, seconds: float, ready: threading.Barrier) -> list[float]:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"small-{next(_names)}",
            "linger.ms": 0,
            "log_level": 4,
        }
    )
    producer.init_transactions(_PATIENCE_S)
    value, took = bytes(RECORD_BYTES), []
    ready.wait(_PATIENCE_S)
    starts = time.perf_counter() + _WARM_UP_S
    while (now := time.perf_counter()) < starts + seconds:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(_PATIENCE_S)
        asked = time.perf_counter()
        producer.commit_transaction(_PATIENCE_S)
        if now >= starts:
            took.append((time.perf_counter() - asked) * 1000)
    return took


def by_java(bootstrap: str, topic: str, producers: int, seconds: float) -> Found:
    """Work in the threads of one JVM, by the client of Apache Kafka 4.1 with its defaults."""
    given = (bootstrap, topic, f"java-{next(_names)}", producers, int(_WARM_UP_S * 1000))
    done = subprocess.run(
        [*java_program(_SOURCE), *map(str, given), str(int(seconds * 1000))],
        capture_output=True,
        text=True,
        timeout=seconds + _PATIENCE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{done.stdout}{done.stderr}")
    commits = [int(line) / 1e6 for line in done.stdout.split()]
    return Found(len(commits), seconds, commits)
