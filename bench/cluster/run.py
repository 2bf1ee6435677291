"""Measure three brokers of each in turns: `make bench-cluster`, or `QUICK=1`, `ROUNDS=3`, `ONLY='acks=all'`."""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from apache.perf_tools import PerfTools
from apache.report import Line, Samples, between_table, table
from apache.results import Parts, print_now
from apache.rounds import parse_options, rates_and_cpu, run_rounds

from cluster.drive import Driver, Sample
from cluster.trio import Trio, run_trio
from cluster.workloads import LINKEDIN, WORKLOADS, Replication, Workload
from kavka_compat.apache import ApacheKafka
from kavka_compat.zookeeper import run_ensemble

_MIB = 1 << 20
_SIDES = ("apache", "kavka")
_LATENCIES = (
    "end-to-end latency, acks=all, median (Kafka's tool, whole ms)",
    "end-to-end latency, acks=all, 99th percentile (Kafka's tool, whole ms)",
    "end-to-end latency, acks=all, median (librdkafka)",
    "end-to-end latency, acks=all, 99th percentile (librdkafka)",
)


def main() -> None:
    """Run everything and print the tables."""
    options = parse_options(__doc__)
    rounds = options.rounds or (1 if options.quick else 5)
    chosen = [w for w in WORKLOADS if re.search(options.only, w.name)]
    with tempfile.TemporaryDirectory(prefix="kavka-bench-", dir=options.directory) as directory:
        parts = measure(Path(directory), chosen, rounds, options.quick)
    between = _between(parts.lines)
    print(f"\n{table(parts.lines, 'Apache Kafka 3.9')}\n")
    if between:
        print(f"{between_table(between, 'Apache Kafka 3.9')}\n")
    print(f"{rounds} rounds after warm-up, medians; all samples: {parts.path}")


def measure(directory: Path, chosen: list[Workload], rounds: int, quick: bool) -> Parts:
    """Start both clusters, drive them in turns, and return what was measured."""
    kafka = ApacheKafka("3.9")
    names = ("idle", *(workload.name for workload in chosen), "latency", "memory")
    with (
        Parts("cluster", rounds, quick, names, lambda lines: {"between": _between(lines)}) as parts,
        ExitStack() as stack,
    ):
        zookeeper = stack.enter_context(run_ensemble(directory)).connect
        trios: dict[str, Trio] = {}
        for side, release in (("apache", kafka), ("kavka", None)):
            trios[side] = stack.enter_context(run_trio(directory, zookeeper, release))
            print_now(f"three brokers of {side} serve")
        parts.add("idle", _idle(trios, seconds=5 if quick else 30))
        driver = Driver(PerfTools(kafka))
        for workload in chosen:
            parts.add(workload.name, _workload(driver, trios, workload, rounds, quick))
        parts.add("latency", _latency(driver, trios, rounds, quick))
        loaded = {side: [trios[side].peak_resident_bytes() / _MIB] for side in _SIDES}
        largest = Line("memory of three brokers, largest", "MiB", loaded, goal=1 / 6)
        parts.add("memory", [largest])
    return parts


def _idle(trios: dict[str, Trio], seconds: float) -> list[Line]:
    print_now(f"idle for {seconds:g} s")
    time.sleep(2)
    before = {side: trios[side].cpu_seconds() for side in _SIDES}
    time.sleep(seconds)
    used = {side: [(trios[side].cpu_seconds() - before[side]) / seconds * 100] for side in _SIDES}
    memory = {side: [trios[side].resident_bytes() / _MIB] for side in _SIDES}
    return [
        Line("idle CPU of three brokers", "% of a core", used, goal=0.5),
        Line("memory of three brokers, idle", "MiB", memory, goal=1 / 6),
    ]


def _workload(
    driver: Driver, trios: dict[str, Trio], workload: Workload, rounds: int, quick: bool
) -> list[Line]:
    records = workload.records // (10 if quick else 1)
    samples = run_rounds(
        workload.name, _SIDES, rounds, lambda side: driver.run(trios[side], workload, records)
    )
    return _lines(workload, samples)


def _lines(workload: Workload, samples: dict[str, list[Sample]]) -> list[Line]:
    speed, cpu = rates_and_cpu(samples)
    is_synchronous = workload.producers and workload.replication is Replication.SYNCHRONOUS
    goal = 1.5 if is_synchronous else 1.0
    lines = [Line(workload.name, "records/s", speed, goal=goal, more_is_better=True)]
    if workload.producers and workload.consumers:
        read: Samples = {
            side: [s.consumed_per_second or 0.0 for s in samples[side]] for side in _SIDES
        }
        name = f"{workload.name}: read"
        lines.append(Line(name, "records/s", read, goal=1.0, more_is_better=True))
    return [*lines, Line(f"broker CPU, {workload.name}", "s per million", cpu, goal=0.5)]


def _latency(driver: Driver, trios: dict[str, Trio], rounds: int, quick: bool) -> list[Line]:
    records = 1000 if quick else 5000
    found: dict[str, Samples] = {}
    for number in range(rounds):
        for side in _SIDES if number % 2 else reversed(_SIDES):
            values = driver.latency_ms(trios[side], records)
            for name, value in zip(_LATENCIES, values, strict=True):
                found.setdefault(name, {s: [] for s in _SIDES})[side].append(value)
            print_now(f"end to end, {side}: {values[2]:.2f} ms median, {values[3]:.2f} ms 99th")
    return [Line(name, "ms", pair, goal=1.0) for name, pair in found.items()]


# -- ratios between lines


def _between(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Return each of LinkedIn's ratios whose two lines were measured, with those of both sides."""
    medians = {
        line.name: {side: statistics.median(line.samples[side]) for side in _SIDES}
        for line in lines
    }
    return [
        {
            "name": f"{more.name} ÷ {less.name}",
            "linkedin": linkedin,
            **{side: medians[more.name][side] / medians[less.name][side] for side in _SIDES},
        }
        for more, less, linkedin in LINKEDIN
        if more.name in medians and less.name in medians
    ]


if __name__ == "__main__":
    main()
