"""Records of 1 KB with acks=all, in order: how much slower they are in transactions of 100 ms than without."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from apache.perf_tools import PerfTools
from apache.report import Line
from apache.rounds import run_rounds
from confluent_kafka import Producer

from kavka_compat.brokers import Broker
from transactions.pair import SIDES, topic_at

RECORD_BYTES = 1000
TRANSACTION_MS = 100
_PARTITIONS = 6
_MAX_PERCENT = 3.0
_PATIENCE_S = 120
_ids = count()

Produce = Callable[[Broker, str, int, str], float]
"""Sends so many records to a topic, in transactions if there is a transactional id; returns how many a second."""


@dataclass(frozen=True)
class Sample:
    """One run without, one with transactions, right after one another."""

    plain: float
    records_per_second: float
    """In transactions."""
    cpu_seconds_per_million: float
    """Of the broker, in transactions."""

    @property
    def percent(self) -> float:
        """Cost of transactions: the loss of throughput in percent."""
        return (1 - self.records_per_second / self.plain) * 100


def measure(
    name: str, brokers: dict[str, Broker], produce: Produce, records: int, rounds: int
) -> list[Line]:
    """Return the lines of one client."""
    turns = {side: count() for side in SIDES}

    def run(side: str) -> Sample:
        # who goes first alternates, for what a run leaves behind in the page cache harms the next one
        orders = ((False, True), (True, False))
        found: dict[bool, tuple[float, float]] = {}
        for transactional in orders[next(turns[side]) % 2]:
            found[transactional] = _once(brokers[side], produce, records, transactional)
        return Sample(found[False][0], *found[True])

    samples = run_rounds(f"1 KB in transactions, {name}", SIDES, rounds, run)
    about = f"1 KB, acks=all, {name}"
    plain = {side: [s.plain for s in samples[side]] for side in SIDES}
    within = {side: [s.records_per_second for s in samples[side]] for side in SIDES}
    percent = {side: [s.percent for s in samples[side]] for side in SIDES}
    cpu = {side: [s.cpu_seconds_per_million for s in samples[side]] for side in SIDES}
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
    ]


def _once(
    broker: Broker, produce: Produce, records: int, transactional: bool
) -> tuple[float, float]:
    """Return records a second and the broker's processor time for a million of them."""
    transactional_id = f"cost-{next(_ids)}" if transactional else ""
    with topic_at(broker, "cost", _PARTITIONS) as topic:
        before = broker.process.cpu_seconds()
        speed = produce(broker, topic, records, transactional_id)
        used = broker.process.cpu_seconds() - before
    return speed, used / records * 1_000_000


def by_perf_tool(tools: PerfTools) -> Produce:
    """Return how Apache Kafka's own tool does it, with the defaults of its producer."""

    def produce(broker: Broker, topic: str, records: int, transactional_id: str) -> float:
        options: tuple[str, ...] = ()
        if transactional_id:
            options = ("--transactional-id", transactional_id)
            options += ("--transaction-duration-ms", str(TRANSACTION_MS))
        settings = ("acks=all", "enable.idempotence=true")
        return tools.produce(broker.bootstrap, topic, records, RECORD_BYTES, settings, options)

    return produce


def by_librdkafka(broker: Broker, topic: str, records: int, transactional_id: str) -> float:
    """Send from confluent-kafka."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "log_level": 4,
    }
    if transactional_id:
        settings["transactional.id"] = transactional_id
    sending = _Sending(Producer(settings), topic, bool(transactional_id))
    return sending.run(records)


class _Sending:
    """One producer's records, as fast as it takes them."""

    def __init__(self, producer: Producer, topic: str, transactional: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._transactional = transactional
        self._errors: list[object] = []

    def run(self, records: int) -> float:
        """Send; return how many a second, until the last one is acknowledged, or committed."""
        producer, value = self._producer, bytes(RECORD_BYTES)
        if self._transactional:
            producer.init_transactions(_PATIENCE_S)
        producer.list_topics(self._topic, timeout=_PATIENCE_S)  # connect before the clock runs
        started = time.perf_counter()
        self._begin(started)
        for number in range(records):
            self._put(value)
            if number % 64 == 0:
                producer.poll(0)
                self._look_at_the_clock()
        if self._transactional:
            producer.commit_transaction(_PATIENCE_S)
        elif producer.flush(_PATIENCE_S):
            raise RuntimeError("not all records were acknowledged")
        speed = records / (time.perf_counter() - started)
        if self._errors:
            raise RuntimeError(f"records were not written: {self._errors[0]}")
        return speed

    def _put(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _begin(self, now: float) -> None:
        if self._transactional:
            self._producer.begin_transaction()
            self._ends = now + TRANSACTION_MS / 1000

    def _look_at_the_clock(self) -> None:
        if self._transactional and time.perf_counter() >= self._ends:
            self._producer.commit_transaction(_PATIENCE_S)
            self._begin(time.perf_counter())

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._errors.append(error)
