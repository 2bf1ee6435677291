"""Measure Apache Kafka and kavka in turns: `make bench`, or `QUICK=1`, `ROUNDS=3`, `ONLY=consume make bench`."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from apache.drive import Driver
from apache.latency import end_to_end_ms
from apache.lifecycle import (
    Launch,
    compile_ours,
    first_acknowledged_ms,
    idle_cpu_percent,
    launch_apache,
    launch_ours,
    run_pair,
)
from apache.report import Line, Samples, table
from apache.results import Parts, print_now
from apache.rounds import parse_options, rates_and_cpu, run_rounds
from apache.workloads import WORKLOADS, Workload
from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker

_MIB = 1 << 20
_SIDES = ("apache", "kavka")


def main() -> None:
    """Run everything and print the table."""
    options = parse_options(__doc__)
    rounds = options.rounds or (1 if options.quick else 5)
    chosen = [w for w in WORKLOADS if re.search(options.only, w.name)]
    with tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.directory) as directory:
        parts = measure(Path(directory), chosen, rounds, options.quick)
    print(f"\n{table(parts.lines, 'Apache Kafka 4.1')}\n")
    print(f"{rounds} rounds after warm-up, medians; all samples: {parts.path}")


def measure(directory: Path, chosen: list[Workload], rounds: int, quick: bool) -> Parts:
    """Start both brokers, drive them in turns, and return what was measured."""
    kafka = ApacheKafka("4.1")
    launchers: dict[str, Launch] = {"apache": launch_apache(kafka), "kavka": launch_ours}
    names = ("start", "idle", *(workload.name for workload in chosen), "latency", "memory")
    with Parts("apache", rounds, quick, names) as parts:
        parts.add("start", [_first_record(directory, launchers, rounds)])
        with run_pair(directory, kafka) as brokers:
            parts.add("idle", _idle(brokers, seconds=5 if quick else 30))
            driver = Driver(kafka)
            driver.warm_up(brokers, quick=quick)
            for workload in chosen:
                parts.add(workload.name, _workload(driver, brokers, workload, rounds, quick))
            parts.add("latency", _latency(driver, brokers, rounds, quick))
            loaded = {side: [brokers[side].process.peak_resident_bytes() / _MIB] for side in _SIDES}
            parts.add("memory", [Line("memory, largest", "MiB", loaded, goal=1 / 6)])
    return parts


def _first_record(directory: Path, launchers: dict[str, Launch], rounds: int) -> Line:
    compile_ours()
    found: Samples = {side: [] for side in _SIDES}
    for number in range(max(rounds, 3)):
        for side, launch in launchers.items():
            took = first_acknowledged_ms(launch, directory / f"start-{side}-{number}")
            found[side].append(took)
            print_now(f"start to first acknowledged record, {side}: {took:.0f} ms")
    return Line("start to first acknowledged record", "ms", found, goal=0.1)


def _idle(brokers: dict[str, Broker], seconds: float) -> list[Line]:
    print_now(f"idle for {seconds:g} s each")
    time.sleep(2)
    percent = {side: [idle_cpu_percent(brokers[side], seconds)] for side in _SIDES}
    memory = {side: [brokers[side].process.resident_bytes() / _MIB] for side in _SIDES}
    return [
        Line("idle CPU", "% of a core", percent, absolute=0.2),
        Line("memory, idle", "MiB", memory, goal=1 / 6),
    ]


def _workload(
    driver: Driver, brokers: dict[str, Broker], workload: Workload, rounds: int, quick: bool
) -> list[Line]:
    records = workload.records // (10 if quick else 1)
    samples = run_rounds(
        workload.name, _SIDES, rounds, lambda side: driver.run(brokers[side], workload, records)
    )
    speed, cpu = rates_and_cpu(samples)
    return [
        Line(workload.name, "records/s", speed, goal=1.0, more_is_better=True),
        Line(f"broker CPU, {workload.name}", "s per million", cpu, goal=0.5),
    ]


def _latency(driver: Driver, brokers: dict[str, Broker], rounds: int, quick: bool) -> list[Line]:
    records = 1000 if quick else 5000
    found: dict[str, Samples] = {}
    for number in range(rounds):
        for side in _SIDES if number % 2 else reversed(_SIDES):
            tool = driver.latency_ms(brokers[side], records)
            fine = end_to_end_ms(brokers[side], records, f"fine-{number}")
            for name, value in zip(_LATENCIES, (*tool, *fine), strict=True):
                found.setdefault(name, {s: [] for s in _SIDES})[side].append(value)
            print_now(f"end to end, {side}: {fine[0]:.2f} ms median, {fine[1]:.2f} ms 99th")
    return [Line(name, "ms", pair, goal=1.0) for name, pair in found.items()]


_LATENCIES = (
    "end-to-end latency, median (Kafka's tool, whole ms)",
    "end-to-end latency, 99th percentile (Kafka's tool, whole ms)",
    "end-to-end latency, median (librdkafka)",
    "end-to-end latency, 99th percentile (librdkafka)",
)


if __name__ == "__main__":
    main()
