"""The topic of progress on a real broker, without Spark."""

import asyncio
import json

import pytest

from kavka.cli.commands.pipelines import main
from kavka.errors import KafkaError
from kavka.spark.queries.flow_progress import PartitionLag, ProgressTable
from kavka.spark.queries.topic import (
    PROGRESS_TOPIC,
    StatusPublisher,
    forget_flows,
    is_over,
    read_progress,
)
from kavka.testing.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield {"bootstrap.servers": running.bootstrap_servers}


def table(name, *flows):
    made = ProgressTable(name)
    for flow in flows:
        made.started(flow, 1_000)
    return made


async def published(servers, progress, now_ms, **options):
    publisher = StatusPublisher(servers)
    await publisher.start()
    await publisher.publish(list(progress), now_ms, **options)
    await publisher.close()


def test_a_cluster_without_pipelines_says_so(servers):
    with pytest.raises(KafkaError, match="none"):
        asyncio.run(read_progress(servers, "none"))


def test_the_newest_progress_of_each_flow_is_read_from_anywhere(servers):
    progress = table("shop", "events", "alerts")
    asyncio.run(published(servers, progress, 5_000))
    progress.lags("events", {("in", 0): PartitionLag(3, 1.5)})
    progress.failed("alerts", "no leader", 6_000, restarts=True)
    asyncio.run(published(servers, progress, 6_000))
    asyncio.run(published(servers, table("bakery", "bread"), 6_000))
    found = asyncio.run(read_progress(servers))
    assert [(one.pipeline, one.flow, one.state) for one in found] == [
        ("bakery", "bread", "running"),
        ("shop", "alerts", "waiting"),
        ("shop", "events", "running"),
    ]
    assert found[1].last_error == "no leader"
    assert found[2].lag_records == 3


def test_what_did_not_change_is_sent_as_a_heartbeat_only(servers):
    async def main():
        publisher = StatusPublisher(servers, PROGRESS_TOPIC)
        await publisher.start()
        progress = list(table("quiet", "flow"))
        counts = []
        for now_ms in (10_000, 10_500, 12_000, 19_999, 20_000):
            before = dict(publisher._sent)
            await publisher.publish(progress, now_ms)
            counts.append(publisher._sent != before)
        await publisher.close()
        return counts

    assert asyncio.run(main()) == [True, False, False, False, True]


def test_a_flow_that_was_forgotten_is_not_in_the_topic_either(servers):
    async def main():
        publisher = StatusPublisher(servers, "forgetting")
        await publisher.start()
        progress = table("shop", "events", "query-d1e121a1")
        await publisher.publish(list(progress), 10_000)
        assert len(await read_progress(servers, "forgetting")) == 2
        progress.forget("query-d1e121a1")
        await publisher.publish(list(progress), 10_500)
        await publisher.close()
        return [one.flow for one in await read_progress(servers, "forgetting")]

    assert asyncio.run(main()) == ["events"]


def test_flows_that_do_not_run_are_forgotten_when_that_is_asked_for(servers, capsys):
    progress = table("old", "lives", "renamed", "over")
    progress.ended("over", "stopped", 1_000)
    topic = "forgotten"

    async def write():
        publisher = StatusPublisher(servers, topic)
        await publisher.start()
        await publisher.publish(list(progress), 10_000)
        await publisher.close()

    asyncio.run(write())
    [*_, other] = [one for one in asyncio.run(read_progress(servers, topic)) if one.flow == "over"]
    assert is_over(other, 2_000)
    lives = progress.of("lives")
    assert not is_over(lives, 2_000)
    assert is_over(lives, 100_000)
    command = ["status", "--bootstrap-server", servers["bootstrap.servers"], "--json"]
    assert main([*command, "--progress-topic", topic, "another", "--forget-ended"]) == 0
    assert main([*command, "--progress-topic", topic, "old", "--forget-ended"]) == 0
    assert [json.loads(one)["flow"] for one in capsys.readouterr().out.splitlines()] == [
        "lives",
        "renamed",
    ]
    asyncio.run(forget_flows(servers, [lives], topic))
    assert [one.flow for one in asyncio.run(read_progress(servers, topic))] == ["renamed"]
