"""The figures of the page of sizes are those of the published benchmarks."""

from __future__ import annotations

import json
import statistics
from math import log
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "size-a-cluster.md").read_text()
WRITE = "broker CPU, 1 producer of 1 KB, 3 replicas, acks=all"


def published(name: str) -> Any:
    return json.loads((ROOT / "bench" / "published" / f"{name}.json").read_text())


def samples(benchmark: str, line: str, side: str) -> list[float]:
    """Return seconds of CPU for a million records."""
    (found,) = [each for each in published(benchmark)["lines"] if each["name"] == line]
    assert found["unit"] == "s per million"
    return [float(each) for each in found[side]]


@pytest.mark.parametrize(
    ("benchmark", "line", "side", "bytes_of_a_record"),
    [
        ("cluster", WRITE, "kavka", 1000),
        ("cluster", WRITE, "apache", 1000),
        ("cluster", "broker CPU, 3 producers, 3 replicas, acks=all", "kavka", 100),
    ],
)
def test_cpu_for_a_gigabyte_is_published_with_its_range(
    benchmark: str, line: str, side: str, bytes_of_a_record: int
) -> None:
    found = [each * 1000 / bytes_of_a_record for each in samples(benchmark, line, side)]
    shown = f"{statistics.median(found):.3g} s ({min(found):.3g} to {max(found):.3g})"
    assert f"| {shown} |" in PAGE


@pytest.mark.parametrize("line", ["broker CPU, produce 1 KB, acks=all", "broker CPU, consume 1 KB"])
def test_cpu_of_one_broker_is_published(line: str) -> None:
    assert f"| {statistics.median(samples('apache', line, 'kavka')):.3g} s |" in PAGE


def test_the_formula_uses_the_table() -> None:
    write = statistics.median(samples("cluster", WRITE, "kavka"))
    read = statistics.median(samples("apache", "broker CPU, consume 1 KB", "kavka"))
    assert f"WRITE_CPU_S, READ_CPU_S = {write:.3g}, {read:.3g}" in PAGE


def test_the_controllers_table_is_that_of_the_published_run() -> None:
    points = published("scale")["points"]
    head = "| " + " | ".join(f"{p['brokers']} brokers, {p['partitions']:,}" for p in points) + " |"
    assert head in PAGE
    for figure, places in (
        ("failover: read cpu s", 2),
        ("failover: reads", 0),
        ("failover: decide cpu s", 2),
        ("failover: memory MiB", 0),
        ("failover: build cpu s of the first broker", 3),
        ("failover: build cpu s per broker", 3),
        ("failover: build cpu s of all brokers", 2),
        ("failover: computed s until the last broker", 2),
        ("failover: computed UpdateMetadata MB to all", 1),
        ("death: states written", 0),
        ("death: decide cpu s", 3),
        ("death: build cpu s of all brokers", 3),
        ("death: computed s until the last broker", 2),
        ("in-sync: orders per cpu s", 0),
        ("creation: topics per cpu s", 0),
        ("client: taken in by a broker cpu s", 3),
    ):
        row = " | ".join(f"{point[figure]:,.{places}f}" for point in points)
        assert f"| {row} |" in PAGE, figure


@pytest.mark.parametrize(
    ("figure", "unit", "places"),
    [
        ("failover: read virtual s", 1, 3),
        ("failover: UpdateMetadata bytes per broker", 1_000_000, 2),
        ("failover: LeaderAndIsr bytes per broker", 1_000_000, 2),
        ("death: multis", 1, 0),
        ("death: UpdateMetadata bytes per broker", 1000, 0),
        ("client: Metadata bytes", 1_000_000, 2),
    ],
)
def test_sizes_and_counts_of_the_controllers_table(figure: str, unit: int, places: int) -> None:
    points = published("scale")["points"]
    row = " | ".join(f"{point[figure] / unit:,.{places}f}" for point in points)
    assert f"| {row} |" in PAGE


def test_all_that_grows_faster_than_the_partitions_is_named() -> None:
    found = published("scale")
    first, before, last = (found["points"][place] for place in (0, -2, -1))
    grows = {
        name
        for name in last
        for start in (first, before)
        if " per cpu s" not in name
        and start[name] > 0
        and log(last[name] / start[name]) > 1.1 * log(last["partitions"] / start["partitions"])
    }
    assert grows == set(found["faster than linear"])
    assert grows == {"failover: computed UpdateMetadata MB to all"}
    waits_s = last["failover: computed s until the last broker"]
    assert f"the last of 100 brokers waits {waits_s:.1f} s" in PAGE
    build_s = last["failover: build cpu s of all brokers"]
    assert f"{build_s:.1f} s of it the building" in PAGE
    assert f"{last['failover: computed UpdateMetadata MB to all']:.0f} MB are sent" in PAGE
    assert f"{last['failover: memory MiB']:.0f} MiB in place of" in PAGE
    heard_s = last["death: computed s until the last broker"]
    assert f"where it waits {heard_s:.2f} s now" in PAGE


def test_orders_get_dearer_by_two_fifths_to_a_half() -> None:
    first, *_, last = published("scale")["points"]
    for figure in ("in-sync: orders per cpu s", "creation: topics per cpu s"):
        assert 1.35 < first[figure] / last[figure] < 1.55
    assert "Orders get dearer by two fifths to a half" in PAGE
