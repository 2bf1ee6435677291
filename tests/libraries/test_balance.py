"""Leaders come back to the first replicas by themselves (`auto.leader.rebalance.enable`)."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.testing.local_cluster import LocalCluster

_SETTINGS = {"leader.imbalance.check.interval.seconds": "1"}


@pytest.mark.kavka_cluster(settings=_SETTINGS)
def test_a_broker_that_is_back_leads_again_what_it_led(kavka_cluster: LocalCluster) -> None:
    cluster = kavka_cluster
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 2, replica_assignment=[[1, 2, 3], [2, 3, 1]])])["t"].result(
        30
    )
    cluster.until(lambda: cluster.leader("t", 0) == 1)
    cluster.kill(1)
    cluster.until(lambda: cluster.leader("t", 0) == 2)
    cluster.start(1)
    cluster.until(lambda: cluster.leader("t", 0) == 1, 60)
    assert cluster.leader("t", 1) == 2


@pytest.mark.kavka_cluster(settings={**_SETTINGS, "auto.leader.rebalance.enable": "false"})
def test_without_it_the_new_leader_stays(kavka_cluster: LocalCluster) -> None:
    cluster = kavka_cluster
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])])["t"].result(30)
    cluster.kill(1)
    cluster.until(lambda: cluster.leader("t", 0) == 2)
    cluster.start(1)
    cluster.until(lambda: len(cluster.in_sync("t")) == 3, 60)
    with pytest.raises(TimeoutError):
        cluster.until(lambda: cluster.leader("t", 0) == 1, 3)
