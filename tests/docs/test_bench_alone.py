"""Benchmarks of kavka alone, or of one side after the other, are published as the others are."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "benchmarks_page.py"))
RUN = {"date": "2026-11-27", "rounds": 3, "machine": "x86-64"}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the module; its package has a short name, which other tests shall not find."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    before = set(sys.modules)
    import apache.report as module

    yield module
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "apache":
            del sys.modules[name]


def section(name: str, lines: Any) -> str:
    """Return the page with one result, whose lines went through a file."""
    result = json.loads(json.dumps({**RUN, "warm_up": False, "lines": lines}))
    page: str = SCRIPT["page"]({name: result})
    return page


def test_samples_of_kavka_alone_have_medians_with_their_range(report: ModuleType) -> None:
    lines = report.SampledLines()
    for value in (3.0, 1.0, 2.0):
        lines.add("start", "s", value)
        lines.add("memory", "MiB", 10 * value)
    page = section("partitions", report.as_json(lines))
    assert "| what | unit | kavka |\n|---|---|--:|\n| start | s | 2 (1-3) |" in page
    assert "| memory | MiB | 20 (10-30) |" in page
    assert "speed-" not in page
    assert "Measured 2026-11-27; 3 rounds; x86-64." in page
    assert report.table(lines, "").splitlines() == page.rstrip().splitlines()[-4:]


def test_both_sides_have_a_ratio_and_a_verdict_and_one_side_neither(report: ModuleType) -> None:
    lines = report.SampledLines()
    lines.add("killed", "ms", 500.0, "apache", 1.0)
    lines.add("killed", "ms", 250.0, "kavka", 1.0)
    lines.add("stopped", "ms", 40.0, "kavka", 1.0)
    lines.add("paused", "ms", 50.0, "apache", 1.0)
    page = section("failover", report.as_json(lines))
    rows = (
        "| killed | ms | 500 | 250 | 0.50 | reached (≤ 1) |",
        "| stopped | ms | - | 40 | - |  |",
        "| paused | ms | 50 | - | - |  |",
    )
    for row in rows:
        assert row in page
        assert row in report.table(lines, "Apache Kafka 3.9")


def test_nothing_is_plotted_where_kavka_is_alone() -> None:
    result = {**RUN, "lines": [{"name": "opened", "unit": "connections/s", "kavka": [1.0]}]}
    assert list(SCRIPT["written"]({"connections": result})) == [SCRIPT["PAGE"]]
