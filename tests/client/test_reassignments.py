"""Moves of partitions, through an admin client and responses that are given."""

import asyncio

import pytest

from kavka.client import Admin, TopicPartition
from kavka.client.admin import Reassignment
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from kavka.wire.messages import alter_partition_reassignments as altering
from kavka.wire.messages import list_partition_reassignments as listing

AT = TopicPartition("t", 1)
OTHER = TopicPartition("u", 0)


def with_admin(broker, settings, work):
    async def main():
        async with Admin(settings, network=broker) as admin:
            return await asyncio.wait_for(work(admin), 60)

    return asyncio.run(main())


def moving(request):
    part = listing.ListPartitionReassignmentsResponsePartition(
        partition_index=1, replicas=[2, 0], adding_replicas=[2], removing_replicas=[0]
    )
    topic = listing.ListPartitionReassignmentsResponseTopic(name="t", partitions=[part])
    return listing.ListPartitionReassignmentsResponse(topics=[topic])


def test_moves_are_listed_with_what_comes_and_what_goes(broker, settings):
    broker.responses[ApiKey.LIST_PARTITION_REASSIGNMENTS] = moving
    found = with_admin(broker, settings, lambda a: a.list_partition_reassignments([AT, OTHER]))
    assert found == {AT: Reassignment((2, 0), (2,), (0,))}
    [request] = broker.seen(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    assert {topic.name: topic.partition_indexes for topic in request.topics} == {"t": [1], "u": [0]}


def test_all_moves_are_asked_for_without_partitions(broker, settings):
    broker.responses[ApiKey.LIST_PARTITION_REASSIGNMENTS] = moving
    with_admin(broker, settings, lambda a: a.list_partition_reassignments())
    assert broker.seen(ApiKey.LIST_PARTITION_REASSIGNMENTS)[0].topics is None


def test_a_cluster_that_does_not_list_reassignments_is_an_unsupported_version(broker, settings):
    broker.hidden.add(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    with pytest.raises(KafkaError) as refused:
        with_admin(broker, settings, lambda a: a.list_partition_reassignments())
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def altered(error, **codes):
    def answer(request):
        topics = [
            altering.AlterPartitionReassignmentsResponseTopic(
                name=topic.name,
                partitions=[
                    altering.AlterPartitionReassignmentsResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes.get(topic.name, ErrorCode.NONE),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return altering.AlterPartitionReassignmentsResponse(error_code=error, responses=topics)

    return answer


def test_each_move_has_its_outcome(broker, settings):
    broker.responses[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = altered(
        ErrorCode.NONE, u=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    )
    outcomes = with_admin(
        broker, settings, lambda a: a.alter_partition_reassignments({AT: [2, 0], OTHER: None})
    )
    assert outcomes[AT] is None
    assert outcomes[OTHER].code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    [request] = broker.seen(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert [t.partitions[0].replicas for t in request.topics] == [[2, 0], None]


def test_a_refusal_of_the_whole_is_one_of_each_move(broker, settings):
    broker.responses[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = altered(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    outcomes = with_admin(
        broker, settings, lambda a: a.alter_partition_reassignments({AT: [2], OTHER: [1]})
    )
    assert {error.code for error in outcomes.values()} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
