"""A refusal that repeats what the client sent fits into a response, however long that was."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode, error_message
from kavka.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsRequestResource
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from support.one_broker import Served

LONGEST = "l" * 32_767
MANY = [0] * 100_000


def test_long_message_is_cut_and_says_how_long_it_was() -> None:
    assert error_message("short") == "short"
    assert error_message("x" * 1_000) == "x" * 1_000
    assert error_message("x" * 50_000) == "x" * 1_000 + "... (50000 characters)"


def test_topics_with_the_longest_names_are_refused_in_a_response(run: Any) -> None:
    async def story(served: Served) -> None:
        assert (await served.create(LONGEST)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        topic = CreatePartitionsRequestTopic(name=LONGEST, count=5)
        response = await served.send(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000))
        assert response.results[0].error_code != 0

    run(story)


def test_quotas_and_credentials_of_the_longest_names_are_refused_in_a_response(run: Any) -> None:
    async def story(served: Served) -> None:
        component = DescribeClientQuotasRequestComponent(entity_type=LONGEST)
        response = await served.send(DescribeClientQuotasRequest(components=[component]))
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        user = DescribeUserScramCredentialsRequestUserName(name=LONGEST)
        response = await served.send(DescribeUserScramCredentialsRequest(users=[user]))
        assert response.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND

    run(story)


@pytest.mark.parametrize("version", [1, 4])
def test_configs_of_the_longest_names_are_refused_in_a_response(run: Any, version: int) -> None:
    async def story(served: Served) -> None:
        for kind in (2, 4):
            asked = DescribeConfigsRequestResource(resource_type=kind, resource_name=LONGEST)
            response = await served.send(DescribeConfigsRequest(resources=[asked]), version)
            assert response.results[0].error_code != 0
            changed = AlterConfigsRequestResource(resource_type=kind, resource_name=LONGEST)
            response = await served.send(AlterConfigsRequest(resources=[changed]))
            assert response.responses[0].error_code != 0

    run(story)


def test_assignments_to_a_hundred_thousand_brokers_are_refused_in_a_response(run: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assigned = CreatePartitionsRequestAssignment(broker_ids=MANY)
        topic = CreatePartitionsRequestTopic(name="t", count=2, assignments=[assigned])
        response = await served.send(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000))
        assert response.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert response.results[0].error_message == (
            "100000 replicas are more than a partition can have: 32767."
        )
        moved = AlterPartitionReassignmentsRequestTopic(
            name="t",
            partitions=[
                AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=MANY)
            ],
        )
        request = AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=1_000)
        response = await served.send(request)
        found = response.responses[0].partitions[0].error_code
        assert found == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    run(story)


@pytest.mark.parametrize(
    ("replicas", "assigned", "moved"),
    [
        (
            [0] * 32_767,
            "Duplicate brokers not allowed in replica assignment: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ... 32757 more]",
            "Duplicate replica ids in partition reassignment replica list: "
            "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ... 32757 more]",
        ),
        (
            list(range(11)),
            "Unknown broker(s) [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] in the replica assignment of partition 0.",
            "Replica assignment has brokers that are not alive. Replica list: "
            "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], live broker list: [0]",
        ),
        (
            list(range(12)),
            "Unknown broker(s) [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... 1 more] in the replica assignment of partition 0.",
            "Replica assignment has brokers that are not alive. Replica list: "
            "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... 1 more], live broker list: [0]",
        ),
        (
            list(range(-2, 30)),
            "Unknown broker(s) [-2, -1, 1, 2, 3, 4, 5, 6, 7, 8, ... 21 more] in the replica assignment of partition 0.",
            "Invalid broker id in partition reassignment replica list: "
            "[-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, ... 22 more]",
        ),
    ],
    ids=["doubled", "ten", "eleven", "negative"],
)
def test_refusals_of_replicas_show_ten_of_them(
    run: Any, replicas: list[int], assigned: str, moved: str
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        by_hand = CreateTopicsRequestAssignment(partition_index=0, broker_ids=replicas)
        topic = CreateTopicsRequestTopic(
            name="u", num_partitions=-1, replication_factor=-1, assignments=[by_hand]
        )
        created = await served.send(CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
        assert created.topics[0].error_message == assigned
        added = CreatePartitionsRequestTopic(
            name="t",
            count=2,
            assignments=[CreatePartitionsRequestAssignment(broker_ids=replicas)],
        )
        grown = await served.send(CreatePartitionsRequest(topics=[added], timeout_ms=1_000))
        assert grown.results[0].error_message == assigned.replace("partition 0", "partition 1")
        partition = AlterPartitionReassignmentsRequestPartition(
            partition_index=0, replicas=replicas
        )
        move = AlterPartitionReassignmentsRequestTopic(name="t", partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[move], timeout_ms=1_000)
        answer = await served.send(request)
        assert answer.responses[0].partitions[0].error_message == moved

    run(story)


@pytest.mark.parametrize("instance", ["l" * 32_767, "\N{GRINNING FACE}" * 8_191])
def test_member_id_of_the_longest_instance_id_fits(run: Any, instance: str) -> None:
    async def story(served: Served) -> None:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        while (await served.send(FindCoordinatorRequest(key="g"), 3)).error_code:
            pass
        for version in (5, 9):
            response = await served.send(request, version)
            assert response.error_code == 0
            assert len(response.member_id.encode()) <= 32_767

    run(story)
