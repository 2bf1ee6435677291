"""Measure sizes, backlogs and the floor: `make bench-load`, or `QUICK=1`, `ROUNDS=3`, `ONLY=floor make bench-load`.

The parts are `produce 10 B` to `produce 1 MB`, the same with `consume`, growing, backlog, floor and cold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from apache.drive import Driver
from apache.lifecycle import run_pair
from apache.perf_tools import PerfTools
from apache.report import Line, floor_table, table
from apache.results import Parts
from apache.rounds import matching, parse_options
from apache.workloads import Workload

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from load import backlog, cold, floor, sizes

_REFERENCE = "Apache Kafka 4.1"


def main() -> None:
    """Run everything and print the tables."""
    options = parse_options(__doc__)
    rounds = options.rounds or (1 if options.quick else 5)
    kafka = ApacheKafka("4.1")
    with (
        tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.directory) as name,
        run_pair(Path(name), kafka) as brokers,
    ):
        bench = _Bench(Path(name), kafka, brokers, rounds, options.quick)
        parts = bench.run(options.only)
    if parts.lines:
        print(f"\n{table(parts.lines, _REFERENCE)}\n")
    if bench.floors:
        print(f"\n{floor_table(bench.floors, _REFERENCE)}\n")
    print(f"{rounds} rounds after warm-up, medians; all samples: {parts.path}")


class _Bench:
    """The parts, on brokers that run; `floors` is what the floor's found."""

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
        self._tools = PerfTools(kafka)
        self._brokers = brokers
        self._rounds = rounds
        self._quick = quick
        self.floors: list[Mapping[str, object]] = []

    def run(self, only: str) -> Parts:
        """Warm both brokers up, run the parts whose name matches, and return what they found."""
        measures: dict[str, Callable[[], list[Line]]] = {
            **{workload.name: self._size(workload) for workload in sizes.WORKLOADS},
            "growing": self._growing,
            "backlog": self._backlog,
            "floor": self._floor,
            "cold": self._cold,
        }
        chosen = matching(measures, only)
        more = {"floor": self.floors}
        with Parts("load", self._rounds, self._quick, chosen, lambda _: more) as parts:
            self._driver.warm_up(self._brokers, quick=self._quick)
            for name in chosen:
                parts.add(name, measures[name]())
        return parts

    def _size(self, workload: Workload) -> Callable[[], list[Line]]:
        return lambda: sizes.measure(
            self._driver, self._brokers, workload, self._rounds, self._quick
        )

    def _growing(self) -> list[Line]:
        records = 2_500_000 if self._quick else 6_000_000
        return backlog.growing(self._tools, self._brokers, records, self._rounds)

    def _backlog(self) -> list[Line]:
        records = 300_000 if self._quick else 1_000_000
        return backlog.behind(self._tools, self._brokers, records, self._rounds)

    def _floor(self) -> list[Line]:
        records = 200_000 if self._quick else 600_000
        found = floor.measure(self._directory, self._tools, self._brokers, records, self._rounds)
        self.floors += [line.as_json() for line in found]
        return []  # its lines have a table of their own

    def _cold(self) -> list[Line]:
        records = 500_000 if self._quick else 4_000_000
        return cold.measure(self._tools, self._brokers, records, self._rounds)


if __name__ == "__main__":
    main()
