"""Elections, directories of replicas and reading of replicas, through an admin client and responses that are given."""

import asyncio

import pytest

from kavka.client import Admin, TopicPartition
from kavka.client.admin import ElectionType, Replica, ReplicaLogDirs
from kavka.client.admin.replica_records import ReplicaRecords
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from kavka.wire.messages import (
    alter_replica_log_dirs,
    describe_log_dirs,
    elect_leaders,
    fetch,
)

AT = TopicPartition("t", 1)
OTHER = TopicPartition("u", 0)


def with_admin(broker, settings, work):
    async def main():
        async with Admin(settings, network=broker) as admin:
            return await asyncio.wait_for(work(admin), 60)

    return asyncio.run(main())


# Elections


def elected(request):
    codes = {"t": ErrorCode.NONE, "u": ErrorCode.ELECTION_NOT_NEEDED}
    results = [
        elect_leaders.ElectLeadersResponseTopic(
            topic=name,
            partition_result=[
                elect_leaders.ElectLeadersResponsePartition(
                    partition_id=topic_partition.partition, error_code=codes[name]
                )
            ],
        )
        for name, topic_partition in (("t", AT), ("u", OTHER))
    ]
    return elect_leaders.ElectLeadersResponse(
        error_code=ErrorCode.NONE, replica_election_results=results
    )


def test_each_election_has_its_outcome(broker, settings):
    broker.responses[ApiKey.ELECT_LEADERS] = elected
    outcomes = with_admin(
        broker, settings, lambda a: a.elect_leaders(ElectionType.UNCLEAN, [AT, OTHER])
    )
    assert outcomes[AT] is None
    assert outcomes[OTHER].code is ErrorCode.ELECTION_NOT_NEEDED
    [request] = broker.seen(ApiKey.ELECT_LEADERS)
    assert request.election_type == 1
    assert {t.topic: t.partitions for t in request.topic_partitions} == {"t": [1], "u": [0]}


def test_all_partitions_elect_when_none_is_named(broker, settings):
    broker.responses[ApiKey.ELECT_LEADERS] = elected
    with_admin(broker, settings, lambda a: a.elect_leaders(ElectionType.PREFERRED))
    assert broker.seen(ApiKey.ELECT_LEADERS)[0].topic_partitions is None


def test_an_election_is_asked_of_the_controller_that_is(broker, settings):
    broker.responses[ApiKey.ELECT_LEADERS] = elected
    broker.faults[ApiKey.ELECT_LEADERS].append(ErrorCode.NOT_CONTROLLER)
    with_admin(broker, settings, lambda a: a.elect_leaders(ElectionType.PREFERRED))
    assert len(broker.seen(ApiKey.ELECT_LEADERS)) == 2


def test_refused_elections_are_returned(broker, settings):
    broker.responses[ApiKey.ELECT_LEADERS] = elected
    broker.faults[ApiKey.ELECT_LEADERS].append(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError) as refused:
        with_admin(broker, settings, lambda a: a.elect_leaders(ElectionType.PREFERRED))
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Directories


@pytest.fixture
def two_brokers(broker):
    broker.pretend_nodes(0, 1)
    broker.hidden.add(ApiKey.DESCRIBE_CLUSTER)
    return broker


def directories(request):
    """Answer that `t-1` lies in /one and moves to /two."""
    results = [
        describe_log_dirs.DescribeLogDirsResponseLogDir(
            error_code=ErrorCode.NONE,
            log_dir=path,
            topics=[
                describe_log_dirs.DescribeLogDirsResponseTopic(
                    name="t",
                    partitions=[
                        describe_log_dirs.DescribeLogDirsResponsePartition(
                            partition_index=1,
                            partition_size=9,
                            offset_lag=lag,
                            is_future_key=future,
                        )
                    ],
                )
            ],
        )
        for path, lag, future in (("/one", 0, False), ("/two", 7, True))
    ]
    return describe_log_dirs.DescribeLogDirsResponse(results=results)


def test_a_replica_lies_in_one_directory_and_moves_to_another(two_brokers, settings):
    two_brokers.responses[ApiKey.DESCRIBE_LOG_DIRS] = directories
    here, missing = Replica("t", 1, 0), Replica("u", 0, 1)
    found = with_admin(
        two_brokers, settings, lambda a: a.describe_replica_log_dirs([here, missing])
    )
    assert found == {
        here: ReplicaLogDirs("/one", 0, "/two", 7),
        missing: ReplicaLogDirs(),
    }
    asked = [request.topics for request in two_brokers.seen(ApiKey.DESCRIBE_LOG_DIRS)]
    assert [(t.topic, t.partitions) for topics in asked for t in topics] == [("t", [1]), ("u", [0])]


def test_an_absent_broker_is_an_error_of_its_replicas_alone(two_brokers, settings):
    two_brokers.responses[ApiKey.DESCRIBE_LOG_DIRS] = directories
    here, gone = Replica("t", 1, 0), Replica("t", 1, 9)
    found = with_admin(two_brokers, settings, lambda a: a.describe_replica_log_dirs([here, gone]))
    assert found[here].current == "/one"
    assert found[gone].code is ErrorCode.BROKER_NOT_AVAILABLE


def moved(request):
    codes = {"/bad": ErrorCode.LOG_DIR_NOT_FOUND}
    topics = [
        alter_replica_log_dirs.AlterReplicaLogDirsResponseTopic(
            topic_name=topic.name,
            partitions=[
                alter_replica_log_dirs.AlterReplicaLogDirsResponsePartition(
                    partition_index=number, error_code=codes.get(directory.path, ErrorCode.NONE)
                )
                for number in topic.partitions
            ],
        )
        for directory in request.dirs
        for topic in directory.topics
    ]
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=topics)


def test_moves_between_directories_are_asked_of_each_broker(two_brokers, settings):
    two_brokers.responses[ApiKey.ALTER_REPLICA_LOG_DIRS] = moved
    targets = {
        Replica("t", 0, 0): "/one",
        Replica("t", 1, 0): "/one",
        Replica("t", 1, 1): "/bad",
    }
    outcomes = with_admin(two_brokers, settings, lambda a: a.alter_replica_log_dirs(targets))
    assert [error and error.code for error in outcomes.values()] == [
        None,
        None,
        ErrorCode.LOG_DIR_NOT_FOUND,
    ]
    requests = two_brokers.seen(ApiKey.ALTER_REPLICA_LOG_DIRS)
    assert [[(d.path, [(t.name, t.partitions) for t in d.topics]) for d in r.dirs] for r in requests] == [
        [("/one", [("t", [0, 1])])],
        [("/bad", [("t", [1])])],
    ]  # fmt: skip
    hosts = [host for key, host in two_brokers.asked if key is ApiKey.ALTER_REPLICA_LOG_DIRS]
    assert sorted(hosts) == ["b1", "broker"]


# What replicas hold


def held(request):
    assert request.topics[0].topic  # version 12 is the last in which topics have names
    parts = [
        fetch.FetchResponsePartition(
            partition_index=1, error_code=ErrorCode.NONE, high_watermark=5, records=b"batches"
        ),
        fetch.FetchResponsePartition(
            partition_index=2, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1
        ),
    ]
    topic = fetch.FetchResponseTopic(topic="t", partitions=parts)
    return fetch.FetchResponse(error_code=ErrorCode.NONE, responses=[topic])


def test_any_replica_is_read_as_kafkas_debugging_consumer(two_brokers, settings):
    two_brokers.responses[ApiKey.FETCH] = held
    offsets = {AT: 3, TopicPartition("t", 2): 4}
    found = with_admin(
        two_brokers, settings, lambda a: a.fetch_replicas(1, offsets, max_bytes=77, max_wait_ms=9)
    )
    assert found[AT] == ReplicaRecords(5, b"batches")
    assert found[TopicPartition("t", 2)].code is ErrorCode.OFFSET_OUT_OF_RANGE
    [request] = two_brokers.seen(ApiKey.FETCH)
    assert (request.replica_id, request.max_wait_ms) == (-2, 9)
    [topic] = request.topics
    assert [(p.fetch_offset, p.partition_max_bytes) for p in topic.partitions] == [(3, 77), (4, 77)]
    assert [host for key, host in two_brokers.asked if key is ApiKey.FETCH] == ["b1"]
