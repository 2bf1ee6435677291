"""A scenario of a cluster asks nothing of brokers that no broker could do."""

from __future__ import annotations

from kavka.simulation.brokers.scenario import ClusterScenario


def test_followers_wait_long_enough_for_responses_over_slow_lines() -> None:
    """In seed 11453 what a follower had missed took six seconds, and the connection was closed after three."""
    slow = [
        scenario
        for scenario in map(ClusterScenario.of_cluster, range(200))
        if scenario.weather.window_bytes <= 2_000 and scenario.weather.latency_s >= 0.05
    ]
    assert slow
    assert {scenario.broker["replica.socket.timeout.ms"] for scenario in slow} == {"10000"}
