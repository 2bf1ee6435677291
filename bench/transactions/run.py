"""Measure transactions: `make bench-transactions`, with `QUICK=1`, `ROUNDS=3`, `ONLY='cost|small'` if less will do.

The parts are cost, small, many, sink and latency.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from apache.drive import Driver
from apache.lifecycle import run_pair
from apache.report import Line, as_json, table
from apache.results import write_results
from apache.rounds import parse_options

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from transactions import cost, many, small
from transactions.through_spark import ThroughSpark

Part = Callable[[], list[Line]]
_SETTINGS = {"transaction.two.phase.commit.enable": "true"}
"""Of our broker: its Spark sink uses two-phase commit then."""


def main() -> None:
    """Run everything and print the table."""
    options = parse_options(__doc__)
    rounds = options.rounds or (1 if options.quick else 5)
    kafka = ApacheKafka("4.1")
    with (
        tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.directory) as name,
        run_pair(Path(name), kafka, _SETTINGS) as brokers,
    ):
        lines = _Bench(Path(name), kafka, brokers, rounds, options.quick).run(options.only)
    print(f"\n{table(lines, 'Apache Kafka 4.1')}\n")
    path = write_results("transactions", rounds, options.quick, {"lines": as_json(lines)})
    load = os.getloadavg()[2]
    print(f"{rounds} rounds after warm-up, medians; machine load {load:.1f}; all samples: {path}")


class _Bench:
    """The parts, on brokers that run."""

    def __init__(
        self,
        directory: Path,
        kafka: ApacheKafka,
        brokers: dict[str, Broker],
        rounds: int,
        quick: bool,
    ) -> None:
        self._directory = directory
        self._driver = Driver(kafka)
        self._brokers = brokers
        self._rounds = rounds
        self._quick = quick

    def run(self, only: str) -> list[Line]:
        """Warm both brokers up, and run the parts whose name matches."""
        self._driver.warm_up(self._brokers, quick=self._quick)
        parts: dict[str, Part] = {
            "cost": self._cost,
            "small": self._small,
            "many": self._many,
            "sink": lambda: self._spark(is_latency=False),
            "latency": lambda: self._spark(is_latency=True),
        }
        chosen = [part for name, part in parts.items() if re.search(only, name)]
        return [line for part in chosen for line in part()]

    def _cost(self) -> list[Line]:
        pairs = 4 if self._quick else 12
        return [
            line
            for name, windows in (("Java", cost.by_java), ("librdkafka", cost.by_librdkafka))
            for line in cost.measure(name, self._brokers, windows, pairs, self._rounds)
        ]

    def _small(self) -> list[Line]:
        seconds = 3 if self._quick else 10
        return [
            line
            for name, transact in (("Java", small.by_java), ("librdkafka", small.by_librdkafka))
            for producers in (1, 10)
            for line in small.measure(
                name, self._brokers, transact, producers, seconds, self._rounds
            )
        ]

    def _many(self) -> list[Line]:
        return many.measure(self._brokers, 1000, self._rounds)

    def _spark(self, *, is_latency: bool) -> list[Line]:
        rows = 200_000 if self._quick else 1_000_000
        directory = self._directory / ("latency" if is_latency else "sink")
        spark = ThroughSpark(directory, self._brokers, rows)
        try:
            if is_latency:
                return spark.latency(60 if self._quick else 300, self._rounds)
            return spark.sink(self._rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
