"""The brokers' pages show what happens to a cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.metrics.page import families
from kavka.ids import TopicPartition
from kavka.metrics.families import lines
from kavka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
)

Run = Any
Cluster = Any
WHERE = TopicPartition("t", 0)
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
TOPICS = "kafka_server_brokertopicmetrics_"


def page(broker: Broker) -> dict[str, float]:
    text = "".join(
        line for family in families(broker.metrics_sources(), 1.0) for line in lines(family)
    )
    samples = re.findall(r"^([^#\s{]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {series: float(value) for series, value in samples}


async def until(cluster: Cluster, number: int, series: str, value: float) -> None:
    await cluster.until(
        lambda: page(cluster.brokers[number])[series] == value, f"{series} of {number} is {value}"
    )


def test_exactly_one_broker_is_the_controller(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        pages = {number: page(broker) for number, broker in cluster.brokers.items()}
        active = [n for n, found in pages.items() if found[CONTROLLER + "activecontrollercount"]]
        assert active == [cluster.controller]
        assert pages[cluster.controller][CONTROLLER + "activebrokercount"] == 3

    run(story)


def test_what_a_follower_fetches_is_counted_on_both_sides(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2])
        await cluster.must_produce(WHERE, b"a", b"b")
        log_size = cluster.brokers[1].replica_manager.find(WHERE).log.size
        await until(cluster, 2, TOPICS + "replicationbytesin_total", log_size)
        leader, follower = page(cluster.brokers[1]), page(cluster.brokers[2])
        assert leader[TOPICS + "replicationbytesout_total"] == log_size
        assert leader[TOPICS + 'bytesin_total{topic="t"}'] == log_size
        assert follower[TOPICS + 'bytesin_total{topic="t"}'] == 0
        thread = 'clientId="ReplicaFetcherThread-0-1"'
        lag = f'kafka_server_fetcherlagmetrics_consumerlag{{{thread},topic="t",partition="0"}}'
        assert follower[lag] == 0
        assert follower[f'kafka_server_fetcherstats_bytes_total{{{thread},leader="1"}}'] == log_size
        assert follower[f'kafka_server_fetcherstats_requests_total{{{thread},leader="1"}}'] > 0
        assert follower['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 0
        assert (leader[MANAGER + "leadercount"], follower[MANAGER + "leadercount"]) == (1, 0)
        assert follower[MANAGER + "partitioncount"] == 1

    run(story)


@pytest.mark.slow
def test_follower_that_fetches_no_more_shrinks_the_set_and_comes_back(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2])
        replication = cluster.brokers[2].replication_manager
        replication.unfollow(WHERE)
        await cluster.produce(WHERE, b"a", acks=1)
        await until(cluster, 1, MANAGER + "isrshrinks_total", 1)
        found = page(cluster.brokers[1])
        assert found[MANAGER + "underreplicatedpartitions"] == 1
        assert found[MANAGER + "atminisrpartitioncount"] == 1
        assert found['kafka_cluster_partition_insyncreplicascount{topic="t",partition="0"}'] == 1
        before = found[MANAGER + "isrexpands_total"]
        replication.follow(cluster.brokers[2].replica_manager.find(WHERE))
        await until(cluster, 1, MANAGER + "isrexpands_total", before + 1)
        assert page(cluster.brokers[1])[MANAGER + "underreplicatedpartitions"] == 0

    run(story, replica__lag__time__max__ms="1000")


def test_partition_without_leader_is_offline_until_an_unclean_election_that_is_counted(
    run: Run,
) -> None:
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"

    async def story(cluster: Cluster) -> None:
        await cluster.until(lambda: cluster.controller == 1, "1 rules")
        await cluster.create("t", [2, 3])
        await cluster.stop(3)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {2}, "2 is alone")
        await cluster.stop(2)
        await cluster.start(3)
        await until(cluster, 1, CONTROLLER + "offlinepartitionscount", 1)
        assert page(cluster.brokers[1])[unclean] == 0
        asked = ElectLeadersRequestTopic(topic="t", partitions=[0])
        request = ElectLeadersRequest(election_type=1, topic_partitions=[asked], timeout_ms=10_000)
        await cluster.send(1, request)
        await until(cluster, 1, CONTROLLER + "offlinepartitionscount", 0)
        found = page(cluster.brokers[1])
        assert found[unclean] == 1
        assert found[CONTROLLER + "preferredreplicaimbalancecount"] == 1
        stats = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
        assert found[stats] > 0

    run(story)
