"""Measure transactions: `make bench-transactions`, with `QUICK=1`, `ROUNDS=3`, `ONLY='cost|small'` if less will do.

The parts are cost and small, each for Java and librdkafka, many, sink and latency.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from apache.drive import Driver
from apache.lifecycle import run_pair
from apache.report import Line, table
from apache.results import Parts
from apache.rounds import matching, parse_options

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from transactions import cost, many, small
from transactions.through_spark import ThroughSpark

Part = Callable[[], list[Line]]
_SETTINGS = {"transaction.two.phase.commit.enable": "true"}
"""Of our broker: its Spark sink uses two-phase commit then."""
_COST: dict[str, cost.Windows] = {"Java": cost.by_java, "librdkafka": cost.by_librdkafka}
_SMALL: dict[str, small.Transact] = {"Java": small.by_java, "librdkafka": small.by_librdkafka}


def main() -> None:
    """Run everything and print the table."""
    options = parse_options(__doc__)
    rounds = options.rounds or (1 if options.quick else 5)
    kafka = ApacheKafka("4.1")
    with (
        tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.directory) as name,
        run_pair(Path(name), kafka, _SETTINGS) as brokers,
    ):
        parts = _Bench(Path(name), kafka, brokers, rounds, options.quick).run(options.only)
    print(f"\n{table(parts.lines, 'Apache Kafka 4.1')}\n")
    load = os.getloadavg()[2]
    print(
        f"{rounds} rounds after warm-up, medians; machine load {load:.1f}; all samples: {parts.path}"
    )


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

    def run(self, only: str) -> Parts:
        """Warm both brokers up, run the parts whose name matches, and return what they found."""
        measures: dict[str, Part] = {
            **{f"cost, {name}": self._cost(name, by) for name, by in _COST.items()},
            **{
                f"small, {name}, {producers}": self._small(name, by, producers)
                for name, by in _SMALL.items()
                for producers in (1, 10)
            },
            "many": lambda: many.measure(self._brokers, 1000, self._rounds),
            "sink": lambda: self._spark(is_latency=False),
            "latency": lambda: self._spark(is_latency=True),
        }
        chosen = matching(measures, only)
        with Parts("transactions", self._rounds, self._quick, chosen) as parts:
            self._driver.warm_up(self._brokers, quick=self._quick)
            for name in chosen:
                parts.add(name, measures[name]())
        return parts

    def _cost(self, name: str, windows: cost.Windows) -> Part:
        pairs = 4 if self._quick else 12
        return lambda: cost.measure(name, self._brokers, windows, pairs, self._rounds)

    def _small(self, name: str, transact: small.Transact, producers: int) -> Part:
        seconds = 3 if self._quick else 10
        return lambda: small.measure(
            name, self._brokers, transact, producers, seconds, self._rounds
        )

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
