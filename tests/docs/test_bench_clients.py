"""The comparison of Python clients counts the records that it sends, and its page has a line for each goal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the benchmark; its modules have short names, which other tests shall not find."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    import clients as module

    yield module
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("apache", "clients", "client_ways"):
            del sys.modules[name]


def ways_of(clients: ModuleType) -> dict[str, int]:
    return clients.PRODUCE | clients.CONSUME | clients.WAITED_FOR | clients.ROUND_TRIPS


@pytest.mark.parametrize("scale", [0.01, 0.1, 1.0])
def test_a_round_has_whole_groups_as_the_ways_send_no_part_of_one(
    clients: ModuleType, scale: float
) -> None:
    for scenario in clients.SCENARIOS:
        for ways in (clients.PRODUCE, clients.CONSUME):
            counts = clients.groups(ways, scenario, scale)
            assert all(count and count % clients.GROUP == 0 for count in counts.values())


def test_each_way_has_its_function(clients: ModuleType) -> None:
    kinds = {"kavka append": "kavka_produce", "kavka append blocking": "kavka_blocking"}
    kinds |= {"confluent consume": "confluent_consume", "kavka arrow": "kavka_consume"}
    kinds |= {"kafka-python round trip": "kafka_python_round_trips"}
    function_of = sys.modules["client_ways"].function_of
    assert {way: function_of(way).__name__ for way in kinds} == kinds
    assert all(callable(function_of(way)) for way in ways_of(clients))


def test_a_goal_is_beside_ways_that_are_measured_and_has_its_lines(clients: ModuleType) -> None:
    found = {
        way: [sample(clients, way, rate) for rate in (100.0, 300.0)] for way in ways_of(clients)
    }
    found["aiokafka one at a time"] = [sample(clients, "aiokafka one at a time", 400.0)] * 2
    lines = {line.name: line for line in clients.lines(clients.SCENARIOS[0], found)}
    assert {ours for ours, _, _ in clients.GOALS} == clients.LINES.keys()
    for ours, _, least in clients.GOALS:
        name = f"100 B: {clients.LINES[ours]}"
        assert {f"{name}: CPU", f"{name}: memory"} <= lines.keys()
        if ours in clients.WAITED_FOR | clients.ROUND_TRIPS:
            assert lines[f"{name}: latency, median"].samples["kavka"] == [10.0, 1000 / 300]
        else:
            assert (
                lines[name].verdict() == f"{'reached' if least <= 1 else 'MISSED'} (≥ {least:.3g})"
            )
    one_at_a_time = lines["100 B: one at a time, each awaited; the best other: latency, median"]
    assert one_at_a_time.samples["apache"] == [2.5, 2.5]
    assert one_at_a_time.verdict() == "MISSED (≤ 1)"


def sample(clients: ModuleType, way: str, rate: float) -> Any:
    """Return a measurement with so many records a second."""
    is_waited_for = way in clients.WAITED_FOR | clients.ROUND_TRIPS
    return clients.Measure(rate, 1.0, 30.0, (1000 / rate, 5000 / rate) if is_waited_for else None)


def test_percentiles_are_those_of_all_records(clients: ModuleType) -> None:
    took = [0.001 * number for number in range(100, 0, -1)]
    assert sys.modules["client_ways"].percentiles(took) == pytest.approx((51.0, 100.0))
