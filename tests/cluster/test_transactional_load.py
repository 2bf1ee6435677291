"""Transactions under load while their coordinators are killed, judged by the history checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.core.shards import partition_for
from kavka.testing.history.workload import Load, Settings
from kavka.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(480)]

_PARTITIONS = 3
_PATIENCE_S = 120


def _coordinator(cluster: LocalCluster, producer: int) -> int:
    """Return the coordinator of one of the load's transactional producers."""
    name = f"transactor-{producer}-of-t"
    return cluster.leader("__transaction_state", partition_for(name, _PARTITIONS))


def _judge(path: Path, kills: int) -> None:
    """Kill the coordinator of one producer after the other, in the middle of its transactions."""
    settings = {"transaction.state.log.num.partitions": str(_PARTITIONS)}
    with LocalCluster(path, settings=settings) as cluster:
        load = Settings(
            cluster.bootstrap_servers,
            client="confluent",
            topic="t",
            replication_factor=3,
            min_insync_replicas=2,
            producers=1,
            transactional=2,
            readers=1,
            members=1,
            rate=50,
            timeout_seconds=_PATIENCE_S,
        )
        with Load(load) as running:
            running.wait_for(30, _PATIENCE_S)
            for kill in range(kills):
                number = _coordinator(cluster, kill % 2)
                cluster.kill(number)
                running.wait_for(30, _PATIENCE_S)
                cluster.start(number)
                cluster.until(
                    lambda: all(
                        cluster.in_sync("__transaction_state", partition) == [1, 2, 3]
                        for partition in range(_PARTITIONS)
                    ),
                    _PATIENCE_S,
                )
                running.wait_for(30, _PATIENCE_S)
            verdict = running.finish()
    assert verdict.passed, verdict.report()
    assert not verdict.unseen
    assert verdict.counts["transactions committed"] > 5


def test_killing_the_coordinator_causes_no_forbidden_anomaly(tmp_path: Path) -> None:
    _judge(tmp_path, 2)


@pytest.mark.long
def test_killing_coordinators_again_and_again_causes_no_forbidden_anomaly(tmp_path: Path) -> None:
    _judge(tmp_path, 20)
