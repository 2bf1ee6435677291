"""Run one workload against one broker with Apache Kafka's performance tools, once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count

from apache.workloads import PARTITIONS, Workload
from kavka_compat.apache import SHIPPED_TOOL, SMALL, ApacheKafka
from kavka_compat.brokers import Broker

_SENT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .* ms 99\.9th")
_PERCENTILES = re.compile(r"50th = ([\d.]+), 99th = ([\d.]+)")
_SECONDS = 600
_runs = count()


@dataclass(frozen=True)
class Sample:
    """What one run gave."""

    records_per_second: float
    cpu_seconds_per_million: float
    """Processor time of the broker for a million records."""


class Driver:
    """Apache Kafka's tools, with the options of its own scripts."""

    def __init__(self, kafka: ApacheKafka) -> None:
        """Use the tools of `kafka`."""
        self._kafka = kafka

    def run(self, broker: Broker, workload: Workload, records: int) -> Sample:
        """Run the workload on a topic of its own, which is deleted afterwards."""
        topic = f"{workload.slug}-{next(_runs)}"
        at = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
        self._tool("kafka-topics", *at, "--create", "--partitions", str(PARTITIONS))
        try:
            if workload.consumed:
                self._produce(broker, workload, topic, records)
            before = broker.process.cpu_seconds()
            if workload.consumed:
                speed = self._consume(broker, topic, records)
            else:
                speed = self._produce(broker, workload, topic, records)
            used = broker.process.cpu_seconds() - before
        finally:
            self._tool("kafka-topics", *at, "--delete")
        return Sample(speed, used / records * 1_000_000)

    def latency_ms(self, broker: Broker, records: int) -> tuple[float, float]:
        """Return the 50th and 99th percentile that kafka-e2e-latency prints, in whole milliseconds."""
        topic = f"latency-{next(_runs)}"
        said = self._tool("kafka-e2e-latency", broker.bootstrap, topic, str(records), "all", "100")
        found = _PERCENTILES.search(said)
        assert found is not None, said
        return float(found[1]), float(found[2])

    def _produce(self, broker: Broker, workload: Workload, topic: str, records: int) -> float:
        load = ("--num-records", str(records), "--record-size", str(workload.record_bytes))
        settings = (f"bootstrap.servers={broker.bootstrap}", *workload.settings)
        said = self._tool(
            "kafka-producer-perf-test",
            *("--topic", topic, *load, "--throughput", "-1", "--producer-props", *settings),
        )
        found = _SENT.findall(said)
        if not found or int(found[-1][0]) != records:
            raise RuntimeError(f"not all records were sent:\n{said}")
        return float(found[-1][1])

    def _consume(self, broker: Broker, topic: str, records: int) -> float:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
        said = self._tool("kafka-consumer-perf-test", *at, "--messages", str(records))
        heading, values = (line.split(", ") for line in said.splitlines()[-2:])
        row = dict(zip(heading, values, strict=True))
        if int(row["data.consumed.in.nMsg"]) < records:
            raise RuntimeError(f"records are missing:\n{said}")
        return float(row["fetch.nMsg.sec"])

    def _tool(self, name: str, *arguments: str) -> str:
        options = SHIPPED_TOOL if "perf" in name or "latency" in name else SMALL
        done = self._kafka.tool(name, *arguments, seconds=_SECONDS, options=options)
        if done.code != 0:
            raise RuntimeError(f"{name} {' '.join(arguments)}: {done}")
        return done.out
