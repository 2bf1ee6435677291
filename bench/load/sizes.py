"""Records of 10 bytes to 1 MB, produced and consumed by Apache Kafka's tools."""

from __future__ import annotations

from apache.drive import Driver
from apache.report import Line
from apache.rounds import rates_and_cpu, run_rounds
from apache.workloads import Workload

from kavka_compat.brokers import Broker
from load.topics import SIDES

_SIZES = (
    ("10 B", 10, 5_000_000),
    ("100 B", 100, 3_000_000),
    ("1 KB", 1000, 600_000),
    ("10 KB", 10_000, 60_000),
    ("100 KB", 100_000, 8_000),
    ("1 MB", 1_000_000, 800),
)
"""Name, bytes of a record, records of a full run: 50 to 800 MB."""

WORKLOADS = tuple(
    Workload(f"{verb} {name}", records, size, ("acks=1",), consumed=verb == "consume")
    for verb in ("produce", "consume")
    for name, size, records in _SIZES
)


def measure(
    driver: Driver, brokers: dict[str, Broker], workload: Workload, rounds: int, quick: bool
) -> list[Line]:
    """Return records, megabytes and processor time of one size."""
    records = workload.records // (4 if quick else 1)
    samples = run_rounds(
        workload.name, SIDES, rounds, lambda side: driver.run(brokers[side], workload, records)
    )
    speed, cpu = rates_and_cpu(samples)
    million = 1_000_000 / workload.record_bytes
    megabytes = {side: [each / million for each in speed[side]] for side in SIDES}
    # seconds for 1,000 MB: a million records of 1 MB would be seconds that no run has
    cpu = {side: [each * million / 1000 for each in cpu[side]] for side in SIDES}
    name = workload.name
    return [
        Line(name, "records/s", speed, goal=1.0, more_is_better=True),
        Line(f"{name}, bytes", "MB/s", megabytes, goal=1.0, more_is_better=True),
        Line(f"broker CPU, {name}", "s per GB", cpu, goal=0.5),
    ]
