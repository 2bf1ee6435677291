"""The observers of a run, with Spark's reports but without Spark: lag at the brokers, the topic of progress."""

import asyncio
import json

import pytest

from kavka.client import Admin, NewTopic, Producer
from kavka.pipelines.definitions import Definitions, FlowDefinition, Location, TopicRead
from kavka.pipelines.observer import Observer, first_brokers
from kavka.spark.queries.flow_progress import ProgressTable
from kavka.spark.queries.topic import StatusPublisher, read_progress
from kavka.spark.queries.watch import client_settings
from kavka.testing.local_cluster import LocalCluster
from support.waiting import until

AT = Location("a.py", 1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        settings = {"bootstrap.servers": running.bootstrap_servers}
        asyncio.run(fill(settings))
        yield settings


async def fill(settings):
    async with Admin(settings) as admin:
        await admin.create_topics([NewTopic("in", 2), NewTopic("side", 1)])
    async with Producer(settings) as producer:
        for topic, partition in (("in", 0), ("in", 0), ("in", 1), ("side", 0)):
            await producer.send(topic, b"v", partition=partition, timestamp_ms=1_000)


def definitions(settings):
    options = {"kafka.bootstrap.servers": settings["bootstrap.servers"], "subscribe": "in"}
    read = TopicRead("kavka", options, True)
    side = TopicRead("kavka", {**options, "subscribe": "side"}, True)
    return Definitions([], [FlowDefinition("events", "events", AT, (read, side))])


def report(*ends):
    sources = [{"endOffset": json.dumps(end)} for end in ends]
    return {"name": "events", "batchId": 0, "numInputRows": 1, "durationMs": {}, "sources": sources}


def test_the_lag_of_each_partition_is_watched_and_published(servers):
    table = ProgressTable("shop")
    observer = Observer(table, definitions(servers), StatusPublisher(servers, "progress"))
    observer.record_progress(report({"in": {"0": 1, "1": 1}}, {"side": {"0": 0}}))
    observer.start()
    asyncio.run(until(lambda: len(table.of("events").lag) == 3))
    observer.close()
    lag = table.of("events").lag
    assert {topic_partition: one.records for topic_partition, one in lag.items()} == {
        "in-0": 1,
        "in-1": 0,
        "side-0": 1,
    }
    seconds = lag["in-0"].seconds
    assert seconds is not None
    assert seconds > 1_000_000_000
    assert lag["in-1"].seconds == 0
    [found] = asyncio.run(read_progress(servers, "progress"))
    assert found.lag_records == 2


def test_a_run_goes_on_without_its_topic_of_progress_and_ends_in_time():
    away = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "10"}
    observer = Observer(ProgressTable("shop"), Definitions(), StatusPublisher(away))
    observer.start()
    asyncio.run(until(lambda: observer.publish_error))
    observer.close()
    assert "127.0.0.1:1" in observer.publish_error


def test_a_batch_with_rows_is_passed_on_and_one_without_is_not():
    seen: list[str] = []
    observer = Observer(ProgressTable("shop"), Definitions(), None, seen.append)
    observer.record_progress(report({"in": {"0": 1}}))
    observer.record_progress({**report({"in": {"0": 1}}), "numInputRows": 0})
    observer.record_progress({**report({"in": {"0": 2}}), "name": None})
    assert seen == ["events"]


def test_the_connection_is_taken_from_the_options_of_a_source():
    options = {
        "kafka.bootstrap.servers": "b:1",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.max.partition.fetch.bytes": "1",
        "subscribe": "in",
    }
    assert client_settings(options) == {"bootstrap.servers": "b:1", "sasl.mechanism": "PLAIN"}
    assert first_brokers(definitions({"bootstrap.servers": "b:2"})) == {"bootstrap.servers": "b:2"}
    assert first_brokers(Definitions()) == {}
