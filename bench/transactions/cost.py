"""Records of 1 KB with acks=all, in order: how much slower they are in transactions of 100 ms than without.

Two producers of one process send in short windows in turns, one of them in transactions. The cost is the median of
the ratios within neighbouring windows: the rate of a shared machine differs more between two runs than the cost is.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from apache.report import Line
from apache.rounds import run_rounds
from apache.topics import run_topic
from confluent_kafka import Producer

from kavka_compat.brokers import Broker
from transactions.pair import SIDES, java_program

RECORD_BYTES = 1000
TRANSACTION_MS = 100
WINDOW_MS = 1000
_WARM_UP_PAIRS = 3
_PARTITIONS = 6
_MAX_PERCENT = 3.0
_PATIENCE_S = 120
_SOURCE = Path(__file__).with_name("TransactionCost.java")
_ids = count()


class Window(NamedTuple):
    """The records of one window, until the last one is acknowledged or committed."""

    is_plain: bool
    records: int
    seconds: float


Windows = Callable[[str, str, str, int], Iterator[Window]]
"""Sends to bootstrap servers, a topic, with a transactional id, so many pairs of windows; yields each at its end."""


@dataclass(frozen=True)
class Pair:
    """A window without and one with transactions, right after one another: records a second."""

    plain: float
    transactional: float
    plain_cpu: float
    """Seconds of the broker for a million records."""
    transactional_cpu: float

    @property
    def percent(self) -> float:
        """Cost of transactions: the loss of throughput in percent."""
        return (1 - self.transactional / self.plain) * 100


@dataclass(frozen=True)
class Sample:
    """The pairs of one run."""

    pairs: list[Pair]

    @property
    def records_per_second(self) -> float:
        """The mean rate in transactions."""
        return sum(pair.transactional for pair in self.pairs) / len(self.pairs)


def measure(
    name: str, brokers: dict[str, Broker], windows: Windows, pairs: int, rounds: int
) -> list[Line]:
    """Return the lines of one client; each pair of each round is a sample."""

    def run(side: str) -> Sample:
        return Sample(_pairs(brokers[side], windows, pairs))

    samples = run_rounds(f"1 KB in transactions, {name}", SIDES, rounds, run)
    found = {side: [pair for sample in samples[side] for pair in sample.pairs] for side in SIDES}
    about = f"1 KB, acks=all, {name}"
    plain = {side: [pair.plain for pair in found[side]] for side in SIDES}
    within = {side: [pair.transactional for pair in found[side]] for side in SIDES}
    percent = {side: [pair.percent for pair in found[side]] for side in SIDES}
    cpu = {side: [pair.transactional_cpu for pair in found[side]] for side in SIDES}
    more_cpu = {
        side: [(pair.transactional_cpu / pair.plain_cpu - 1) * 100 for pair in found[side]]
        for side in SIDES
    }
    return [
        Line(f"{about}, without transactions", "records/s", plain, goal=1.0, more_is_better=True),
        Line(f"{about}, in transactions", "records/s", within, goal=1.0, more_is_better=True),
        Line(
            f"{about}: cost of transactions",
            "%",
            percent,
            absolute=_MAX_PERCENT,
            not_above_apache=True,
        ),
        Line(f"broker CPU, {about}, in transactions", "s per million", cpu, goal=1.0),
        Line(f"broker CPU, {about}: more in transactions", "%", more_cpu, not_above_apache=True),
    ]


def _pairs(broker: Broker, windows: Windows, pairs: int) -> list[Pair]:
    """Return the pairs of one run behind its warm-up."""
    found: list[Pair] = []
    waiting: dict[bool, tuple[float, float]] = {}
    with run_topic(broker, "cost", _PARTITIONS) as topic:
        used = broker.process.cpu_seconds()
        for window in windows(
            broker.bootstrap, topic, f"cost-{next(_ids)}", pairs + _WARM_UP_PAIRS
        ):
            before, used = used, broker.process.cpu_seconds()
            cpu = (used - before) / window.records * 1_000_000
            waiting[window.is_plain] = (window.records / window.seconds, cpu)
            if len(waiting) == 2:
                (plain, plain_cpu), (within, within_cpu) = waiting[True], waiting[False]
                found.append(Pair(plain, within, plain_cpu, within_cpu))
                waiting.clear()
    if len(found) != pairs + _WARM_UP_PAIRS:
        raise RuntimeError(f"the client has sent {len(found)} pairs of windows")
    return found[_WARM_UP_PAIRS:]


def by_java(bootstrap: str, topic: str, transactional_id: str, pairs: int) -> Iterator[Window]:
    """Send from Java's 4.1, with the defaults of its producer."""
    sizes = map(str, (RECORD_BYTES, TRANSACTION_MS, WINDOW_MS, pairs))
    command = [*java_program(_SOURCE), bootstrap, topic, transactional_id, *sizes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                kind, records, nanoseconds = line.split()
                yield Window(kind == "plain", int(records), int(nanoseconds) / 1e9)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RuntimeError(f"{_SOURCE.name} ended with {process.returncode}")


def by_librdkafka(
    bootstrap: str, topic: str, transactional_id: str, pairs: int
) -> Iterator[Window]:
    """Send from confluent-kafka, with its defaults."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "log_level": 4,
    }
    plain = _Sending(Producer(settings), topic, is_transactional=False)
    transactional = Producer({**settings, "transactional.id": transactional_id})
    transactional.init_transactions(_PATIENCE_S)
    other = _Sending(transactional, topic, is_transactional=True)
    for number in range(2 * pairs):
        # plain, transactional, transactional, plain: what a window leaves behind harms both alike
        yield (plain if number % 4 in (0, 3) else other).run(WINDOW_MS / 1000)


class _Sending:
    """One producer's records, as fast as it takes them."""

    def __init__(self, producer: Producer, topic: str, *, is_transactional: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._is_transactional = is_transactional
        self._errors: list[object] = []
        producer.list_topics(topic, timeout=_PATIENCE_S)  # connect before the clock runs

    def run(self, seconds: float) -> Window:
        """Send for so long, and until the last record is acknowledged, or committed."""
        producer, value, sent = self._producer, bytes(RECORD_BYTES), 0
        now = started = time.perf_counter()
        self._begin(started)
        while now < started + seconds:
            for _ in range(64):
                self._put(value)
            sent += 64
            producer.poll(0)
            now = time.perf_counter()
            if self._is_transactional and now >= self._ends:
                producer.commit_transaction(_PATIENCE_S)
                self._begin(time.perf_counter())
        if self._is_transactional:
            producer.commit_transaction(_PATIENCE_S)
        elif producer.flush(_PATIENCE_S):
            raise RuntimeError("not all records were acknowledged")
        took = time.perf_counter() - started
        if self._errors:
            raise RuntimeError(f"records were not written: {self._errors[0]}")
        return Window(not self._is_transactional, sent, took)

    def _put(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _begin(self, now: float) -> None:
        if self._is_transactional:
            self._producer.begin_transaction()
            self._ends = now + TRANSACTION_MS / 1000

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._errors.append(error)
