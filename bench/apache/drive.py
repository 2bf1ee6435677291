"""Run one workload against one broker with Apache Kafka's performance tools, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from apache.perf_tools import PerfTools
from apache.rounds import warm_up
from apache.workloads import PARTITIONS, Workload
from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker

_runs = count()
_WARM_UP = Workload("warm-up", 2_000_000, 100, ("acks=1",), consumed=True)


@dataclass(frozen=True)
class Sample:
    """The result of one run."""

    records_per_second: float
    cpu_seconds_per_million: float
    """Processor time of the broker for a million records."""


class Driver:
    """Runs workloads on topics of their own."""

    def __init__(self, kafka: ApacheKafka) -> None:
        """Use the tools of `kafka`."""
        self._tools = PerfTools(kafka)

    def run(self, broker: Broker, workload: Workload, records: int) -> Sample:
        """Run the workload on a topic of its own, which is deleted afterwards."""
        topic = f"{workload.slug}-{next(_runs)}"
        at = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
        self._tools.run("kafka-topics", *at, "--create", "--partitions", str(PARTITIONS))
        try:
            if workload.consumed:
                self._produce(broker, workload, topic, records)
            before = broker.process.cpu_seconds()
            if workload.consumed:
                row = self._tools.consume(broker.bootstrap, topic, records)
                speed = float(row["fetch.nMsg.sec"])
            else:
                speed = self._produce(broker, workload, topic, records)
            used = broker.process.cpu_seconds() - before
        finally:
            self._tools.run("kafka-topics", *at, "--delete")
        return Sample(speed, used / records * 1_000_000)

    def warm_up(self, brokers: Mapping[str, Broker], *, quick: bool) -> None:
        """Load all brokers before the first line is measured, equally long, with batches and with fetches."""

        def run(side: str) -> Sample:
            return self.run(brokers[side], _WARM_UP, _WARM_UP.records // (4 if quick else 1))

        warm_up(list(brokers), run, 10 if quick else 45)

    def latency_ms(self, broker: Broker, records: int) -> tuple[float, float]:
        """Return the 50th and 99th percentile that kafka-e2e-latency prints, in whole milliseconds."""
        return self._tools.latency_ms(broker.bootstrap, f"latency-{next(_runs)}", records)

    def _produce(self, broker: Broker, workload: Workload, topic: str, records: int) -> float:
        return self._tools.produce(
            broker.bootstrap, topic, records, workload.record_bytes, workload.settings
        )
