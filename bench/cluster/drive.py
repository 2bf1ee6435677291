"""Run one workload against one cluster, once: all its producers and consumers at the same time."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import NamedTuple

from apache.latency import percentiles_ms
from apache.perf_tools import PerfTools

from cluster.trio import Trio
from cluster.workloads import Replication, Workload

_runs = count()
_FORM = "%Y-%m-%d %H:%M:%S:%f"


@dataclass(frozen=True)
class Sample:
    """The result of one run."""

    records_per_second: float
    """Of all producers together, or of all consumers without a producer."""
    consumed_per_second: float | None
    """Rate with both at work, from the first record sent until the consumers had all; else None."""
    cpu_seconds_per_million: float
    """Processor time of all three brokers, until all replicas have all records, for a million records."""


class _Work(NamedTuple):
    """The time in which one tool moved its records, in seconds of the wall clock."""

    began: float
    ended: float


class Driver:
    """Apache Kafka's tools, several at a time."""

    def __init__(self, tools: PerfTools) -> None:
        """Use these tools."""
        self._tools = tools

    def run(self, trio: Trio, workload: Workload, records: int) -> Sample:
        """Run the workload on a topic of its own, which is deleted afterwards."""
        topic = f"{workload.slug}-{next(_runs)}".replace("--", "-")
        trio.create(topic, workload.replication)
        try:
            if not workload.producers:
                self._produce(trio, topic, workload, records)
                self._settle(trio, topic, workload)
            before = trio.cpu_seconds()
            produced, consumed = self._at_once(trio, topic, workload, records)
            self._settle(trio, topic, workload)
            used = trio.cpu_seconds() - before
        finally:
            trio.delete(topic)
        moved = records * (workload.producers or workload.consumers)
        per_million = used / moved * 1_000_000
        if not produced:
            return Sample(_speed(consumed, moved), None, per_million)
        until_read = None
        if consumed:
            until_read = _speed([*produced, *consumed], moved * workload.consumers, produced)
        return Sample(_speed(produced, moved), until_read, per_million)

    def latency_ms(self, trio: Trio, records: int) -> tuple[float, float, float, float]:
        """Return median and 99th percentile of Kafka's tool, in whole ms, and of librdkafka: synchronous."""
        topics = [f"latency-{next(_runs)}" for _ in range(2)]
        for topic in topics:
            trio.create(topic, Replication.SYNCHRONOUS, partitions=1)
        tool = self._tools.latency_ms(trio.bootstrap, topics[0], records)
        fine = percentiles_ms(trio.bootstrap, records, topics[1])
        for topic in topics:
            trio.delete(topic)
        return (*tool, *fine)

    def _at_once(
        self, trio: Trio, topic: str, workload: Workload, records: int
    ) -> tuple[list[_Work], list[_Work]]:
        each = records * max(1, workload.producers)
        with ThreadPoolExecutor(workload.producers + workload.consumers) as pool:
            produced = [
                pool.submit(self._produce, trio, topic, workload, records)
                for _ in range(workload.producers)
            ]
            consumed = [
                pool.submit(self._consume, trio, topic, each) for _ in range(workload.consumers)
            ]
        return _results(produced), _results(consumed)

    def _produce(self, trio: Trio, topic: str, workload: Workload, records: int) -> _Work:
        settings = workload.replication.producer_settings
        speed = self._tools.produce(trio.bootstrap, topic, records, workload.record_bytes, settings)
        ended = time.time()
        return _Work(ended - records / speed, ended)

    def _consume(self, trio: Trio, topic: str, records: int) -> _Work:
        row = self._tools.consume(trio.bootstrap, topic, records)
        ended = datetime.strptime(row["end.time"], _FORM).timestamp()
        return _Work(ended - int(row["fetch.time.ms"]) / 1000, ended)

    def _settle(self, trio: Trio, topic: str, workload: Workload) -> None:
        if workload.replication.factor > 1:
            trio.wait_until_equal(topic)


def _results(futures: list[Future[_Work]]) -> list[_Work]:
    return [future.result() for future in futures]


def _speed(works: list[_Work], records: int, first: list[_Work] | None = None) -> float:
    """Return the records a second of several tools: from the first that moved one until the last had all.

    `first`: those that can have moved the first record, where the others only waited for it.
    """
    began = min(work.began for work in first or works)
    return records / (max(work.ended for work in works) - began)
