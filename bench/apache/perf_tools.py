"""The options and the output of Apache Kafka's performance tools."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kavka_compat.apache import SHIPPED_TOOL, SMALL, ApacheKafka

_SENT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .* ms 99\.9th")
_WINDOW = re.compile(r"\d+ records sent, ([\d.]+) records/sec ")
_PERCENTILES = re.compile(r"50th = ([\d.]+), 99th = ([\d.]+)")
_SECONDS = 600


class PerfTools:
    """The tools of one release, with the options of its own scripts."""

    def __init__(self, kafka: ApacheKafka) -> None:
        """Use the tools of `kafka`."""
        self._kafka = kafka

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: int,
        record_bytes: int,
        settings: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> float:
        """Send records as fast as possible; return how many a second. Raise RuntimeError unless all were sent.

        `settings` are the producer's, `options` the tool's.
        """
        said = self._produce(bootstrap, topic, records, record_bytes, settings, options)
        return float(_SENT.findall(said)[-1][1])

    def produce_by_window(
        self, bootstrap: str, topic: str, records: int, record_bytes: int, settings: Sequence[str]
    ) -> list[float]:
        """Send as `produce`; return how many a second in each of the tool's windows of five seconds."""
        said = self._produce(bootstrap, topic, records, record_bytes, settings, ())
        lines = [line for line in said.splitlines() if "99.9th" not in line]
        return [float(found[1]) for line in lines if (found := _WINDOW.match(line))]

    def _produce(
        self,
        bootstrap: str,
        topic: str,
        records: int,
        record_bytes: int,
        settings: Sequence[str],
        options: Sequence[str],
    ) -> str:
        load = ("--num-records", str(records), "--record-size", str(record_bytes))
        said = self.run(
            "kafka-producer-perf-test",
            *("--topic", topic, *load, "--throughput", "-1", *options),
            *("--producer-props", f"bootstrap.servers={bootstrap}", *settings),
        )
        found = _SENT.findall(said)
        if not found or int(found[-1][0]) != records:
            raise RuntimeError(f"not all records were sent:\n{said}")
        return said

    def consume(self, bootstrap: str, topic: str, records: int) -> dict[str, str]:
        """Read from the start; return the tool's columns. Raise RuntimeError unless all records came."""
        at = ("--bootstrap-server", bootstrap, "--topic", topic, "--timeout", "60000")
        said = self.run("kafka-consumer-perf-test", *at, "--messages", str(records))
        lines = said.splitlines()
        heading = next((n for n, line in enumerate(lines) if line.startswith("start.time")), None)
        if heading is None or heading + 1 == len(lines):
            raise RuntimeError(f"the tool has counted nothing:\n{said}")
        row = dict(zip(*(line.split(", ") for line in lines[heading : heading + 2]), strict=True))
        if int(row["data.consumed.in.nMsg"]) < records:
            raise RuntimeError(f"records are missing:\n{said}")
        return row

    def latency_ms(self, bootstrap: str, topic: str, records: int) -> tuple[float, float]:
        """Return the 50th and 99th percentile that kafka-e2e-latency prints, in whole milliseconds."""
        said = self.run("kafka-e2e-latency", bootstrap, topic, str(records), "all", "100")
        found = _PERCENTILES.search(said)
        assert found is not None, said
        return float(found[1]), float(found[2])

    def run(self, name: str, *arguments: str) -> str:
        """Run any tool to its end and return what it wrote. Raise RuntimeError when it fails."""
        options = SHIPPED_TOOL if "perf" in name or "latency" in name else SMALL
        done = self._kafka.tool(name, *arguments, seconds=_SECONDS, options=options)
        if done.code != 0:
            raise RuntimeError(f"{name} {' '.join(arguments)}: {done}")
        return done.out
