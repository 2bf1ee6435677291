"""Measure sizes, backlogs and the floor: `make bench-load`, or `QUICK=1`, `ROUNDS=3`, `ONLY=floor make bench-load`.

The parts are `produce 10 B` to `produce 1 MB`, the same with `consume`, growing, backlog, floor and cold.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from apache.drive import Driver
from apache.lifecycle import run_pair
from apache.perf_tools import PerfTools
from apache.report import Line, as_json, floor_table, table
from apache.results import write_results
from apache.rounds import parse_options
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
        bench.run(options.only)
    if bench.lines:
        print(f"\n{table(bench.lines, _REFERENCE)}\n")
    floors = [line.as_json() for line in bench.floors]
    if floors:
        print(f"\n{floor_table(floors, _REFERENCE)}\n")
    measured = {"lines": as_json(bench.lines), "floor": floors}
    path = write_results("load", rounds, options.quick, measured)
    print(f"{rounds} rounds after warm-up, medians; all samples: {path}")


class _Bench:
    """The parts, on brokers that run; `lines` and `floors` are what they found."""

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
        self.lines: list[Line] = []
        self.floors: list[floor.FloorLine] = []

    def run(self, only: str) -> None:
        """Warm both brokers up, and run the parts whose name matches."""
        self._driver.warm_up(self._brokers, quick=self._quick)
        parts: dict[str, Callable[[], None]] = {
            **{workload.name: self._size(workload) for workload in sizes.WORKLOADS},
            "growing": self._growing,
            "backlog": self._backlog,
            "floor": self._floor,
            "cold": self._cold,
        }
        for name, part in parts.items():
            if re.search(only, name):
                part()

    def _size(self, workload: Workload) -> Callable[[], None]:
        def run() -> None:
            self.lines += sizes.measure(
                self._driver, self._brokers, workload, self._rounds, self._quick
            )

        return run

    def _growing(self) -> None:
        records = 2_500_000 if self._quick else 6_000_000
        self.lines += backlog.growing(self._tools, self._brokers, records, self._rounds)

    def _backlog(self) -> None:
        records = 300_000 if self._quick else 1_000_000
        self.lines += backlog.behind(self._tools, self._brokers, records, self._rounds)

    def _floor(self) -> None:
        records = 200_000 if self._quick else 600_000
        self.floors = floor.measure(
            self._directory, self._tools, self._brokers, records, self._rounds
        )

    def _cold(self) -> None:
        records = 500_000 if self._quick else 4_000_000
        self.lines += cold.measure(self._tools, self._brokers, records, self._rounds)


if __name__ == "__main__":
    main()
