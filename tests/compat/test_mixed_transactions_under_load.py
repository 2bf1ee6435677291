"""Transactions in a cluster of Apache Kafka's brokers and ours: coordinators, leaders and markers of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kavka.core.shards import partition_for
from kavka.testing.history.workload import Load, Settings
from kavka_compat.mixed import Kind, MixedCluster, run_mixed

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

_STATES = "__transaction_state"
_PARTITIONS = 3
_PATIENCE_S = 120


def _coordinator(cluster: MixedCluster, producer: int) -> int:
    """Return the coordinator of one of the load's transactional producers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = admin.list_topics(_STATES, timeout=_PATIENCE_S).topics[_STATES]
    partition = partition_for(f"transactor-{producer}-of-t", _PARTITIONS)
    leader: int = topic.partitions[partition].leader
    return leader


@pytest.mark.parametrize(
    "majority", [Kind.APACHE, Kind.KAVKA], ids=["more-of-theirs", "more-of-ours"]
)
def test_coordinators_of_both_kinds_take_over_from_each_other(
    tmp_path: Path, majority: Kind
) -> None:
    kinds = {0: Kind.APACHE, 1: Kind.KAVKA, 2: majority}
    killed: list[Kind] = []
    with run_mixed(
        tmp_path, kinds, {"transaction.state.log.num.partitions": str(_PARTITIONS)}
    ) as cluster:
        settings = Settings(
            cluster.bootstrap,
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
        with Load(settings) as load:
            load.wait_for(50, _PATIENCE_S)
            while len(killed) < 2 or len(set(killed)) < 2:
                number = _coordinator(cluster, len(killed) % 2)
                killed.append(cluster.kinds[number])
                cluster.kill(number)
                load.wait_for(30, _PATIENCE_S)
                cluster.revive(number)
                cluster.wait_in_sync(_STATES, "t")
                load.wait_for(30, _PATIENCE_S)
                assert len(killed) < 10, f"only coordinators of one kind: {killed}"
            verdict = load.finish()
    assert verdict.passed, verdict.report()
    assert verdict.counts["transactions committed"] > 5
