"""Requests that are refused, API by API: the rules of Kafka 3.9 and its codes."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
)
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.config_requests import BROKER, DELETE, SET, TOPIC, Resource, altered, described
from support.one_broker import Run, Served

GROUP = 32


async def metadata(served: Served, *names: str) -> list[tuple[str, int]]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    response = await served.send(MetadataRequest(topics=topics))
    return [(topic.name, topic.error_code) for topic in response.topics]


# Metadata


def test_a_refused_automatic_creation_says_why(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("a.b")
        assert await metadata(served, "a_b", "a/b") == [
            ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]

    run(story)


def test_an_automatic_creation_with_too_few_brokers_says_so(run: Run) -> None:
    async def story(served: Served) -> None:
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        assert await metadata(served, "t") == [("t", code)]

    run(story, default__replication__factor="3")


def test_a_topic_that_may_not_be_created_is_unknown(run: Run) -> None:
    async def story(served: Served) -> None:
        assert await metadata(served, "t", "a/b") == [
            ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]

    run(story, auto__create__topics__enable="false")


def test_a_topic_that_is_asked_for_twice_is_answered_once(run: Run) -> None:
    async def story(served: Served) -> None:
        assert await metadata(served, "t", "t") == [("t", ErrorCode.NONE)]
        assert await metadata(served, "t", "t") == [("t", ErrorCode.NONE)]

    run(story)


# Topics


def test_validation_shows_the_topic_that_would_be(run: Run) -> None:
    async def story(served: Served) -> None:
        wanted = served.new_topic("t", 3, retention__ms="1000")
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=5000, validate_only=True)
        (response,) = (await served.send(request)).topics
        assert (response.error_code, response.topic_id) == (ErrorCode.NONE, bytes(16))
        assert (response.num_partitions, response.replication_factor) == (3, 1)
        shown = {row.name: (row.value, row.config_source) for row in response.configs}
        assert shown["retention.ms"] == ("1000", 1)
        assert shown["cleanup.policy"] == ("delete", 5)
        assert served.broker.metadata.topics == {}
        request.validate_only = False
        (created,) = (await served.send(request)).topics
        assert created.configs == response.configs

    run(story)


def test_a_topic_that_is_created_twice_in_a_request_is_not_created(run: Run) -> None:
    async def story(served: Served) -> None:
        topics = [served.new_topic("t"), served.new_topic("u"), served.new_topic("t")]
        responses = (await served.send(CreateTopicsRequest(topics=topics, timeout_ms=5000))).topics
        refused = ErrorCode.INVALID_REQUEST
        assert [(a.name, a.error_code) for a in responses] == [
            ("t", refused),
            ("u", ErrorCode.NONE),
            ("t", refused),
        ]
        assert list(served.broker.metadata.topics) == ["u"]

    run(story)


def test_the_log_of_a_raft_cluster_is_no_topic(run: Run) -> None:
    async def story(served: Served) -> None:
        request = CreateTopicsRequest(
            topics=[served.new_topic("__cluster_metadata")], timeout_ms=5000
        )
        (response,) = (await served.send(request)).topics
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "prohibited" in response.error_message

    run(story)


def test_a_topic_that_grows_twice_in_a_request_is_refused_once(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        topics = [CreatePartitionsRequestTopic(name="t", count=n, assignments=None) for n in (2, 3)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=5000)
        (response,) = (await served.send(request)).results
        assert (response.name, response.error_code) == ("t", ErrorCode.INVALID_REQUEST)
        assert len(served.broker.metadata.topics["t"].partitions) == 1

    run(story)


def test_a_topic_that_is_deleted_twice_in_a_request_stays(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        topic_id = served.broker.metadata.topics["t"].topic_id
        by_name, by_id = (
            DeleteTopicsRequestTopic(name="t"),
            DeleteTopicsRequestTopic(name=None, topic_id=topic_id),
        )
        both = DeleteTopicsRequestTopic(name="t", topic_id=topic_id)
        neither = DeleteTopicsRequestTopic(name=None)
        for topics in ([by_name, by_name], [by_id, by_id], [by_name, by_id], [both], [neither]):
            request = DeleteTopicsRequest(topics=topics, timeout_ms=5000)
            responses = (await served.send(request)).responses
            codes = {response.error_code for response in responses}
            assert codes == {ErrorCode.INVALID_REQUEST}, topics
        assert "t" in served.broker.metadata.topics
        (old,) = (
            await served.send(DeleteTopicsRequest(topic_names=["t", "t"], timeout_ms=5000), 5)
        ).responses
        assert old.error_code == ErrorCode.INVALID_REQUEST

    run(story)


def test_a_topic_is_deleted_by_its_id(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        topic_id = served.broker.metadata.topics["t"].topic_id
        topic = DeleteTopicsRequestTopic(name=None, topic_id=topic_id)
        request = DeleteTopicsRequest(topics=[topic], timeout_ms=5000)
        (response,) = (await served.send(request)).responses
        assert (response.name, response.topic_id, response.error_code) == (
            "t",
            topic_id,
            ErrorCode.NONE,
        )
        (response,) = (await served.send(request)).responses
        assert (response.name, response.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)

    run(story)


def test_the_successor_of_a_topic_is_not_deleted_in_its_place(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        old_id = served.broker.metadata.topics["t"].topic_id
        by_name = DeleteTopicsRequestTopic(name="t")
        by_id = DeleteTopicsRequestTopic(name=None, topic_id=old_id)
        deleted = await served.send(DeleteTopicsRequest(topics=[by_name], timeout_ms=5000))
        created = await served.send(
            CreateTopicsRequest(topics=[served.new_topic("t")], timeout_ms=5000)
        )
        late = await served.send(DeleteTopicsRequest(topics=[by_id], timeout_ms=5000))
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert late.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        later = await served.broker.topics.delete("t", old_id)  # its name was looked up before
        assert later.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert served.broker.metadata.topics["t"].topic_id == created.topics[0].topic_id != old_id

    run(story)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (5, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_disabled_deletion_is_said_so_that_each_version_understands(
    run: Run, version: int, code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        request = DeleteTopicsRequest(topic_names=["t", "nonexistent"], timeout_ms=5000)
        responses = (await served.send(request, version)).responses
        assert [response.error_code for response in responses] == [code, code]
        assert "t" in served.broker.metadata.topics

    run(story, delete__topic__enable="false")


def test_records_are_deleted_up_to_the_high_watermark_and_no_further(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b")
        created = CreateTopicsRequest(
            topics=[served.new_topic("c", cleanup__policy="compact")], timeout_ms=5000
        )
        await served.send(created)
        await served.send(FindCoordinatorRequest(key="g"), 3)

        async def delete(name: str, offset: int, partition: int = 0) -> tuple[int, int]:
            asked = DeleteRecordsRequestPartition(partition_index=partition, offset=offset)
            topic = DeleteRecordsRequestTopic(name=name, partitions=[asked])
            response = await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=5000))
            (found,) = response.topics[0].partitions
            return found.error_code, found.low_watermark

        assert await delete("t", -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete("t", 3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete("t", -1) == (ErrorCode.NONE, 2)
        assert await delete("t", 1) == (ErrorCode.NONE, 2)
        assert await delete("c", 0) == (ErrorCode.POLICY_VIOLATION, -1)
        assert await delete("t", 0, 1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        internal = await delete("__consumer_offsets", 0)
        assert internal == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    run(story)


# Configurations


@pytest.mark.parametrize("name", ["x", "--5", "²", "1_0", "7"])
def test_a_broker_that_is_not_this_one_is_refused(run: Run, name: str) -> None:
    async def story(served: Served) -> None:
        result = await described(served, BROKER, name)
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert name in result.error_message
        code, message = await alter(served, (BROKER, name, [("log.retention.ms", SET, "1")]))
        assert (code, name in message) == (ErrorCode.INVALID_REQUEST, True)

    run(story)


def test_no_keys_mean_all_keys(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        counts = []
        for keys in (None, []):  # type: ignore[var-annotated]
            counts.append(len((await described(served, TOPIC, "t", keys)).configs))
        assert counts[0] == counts[1] > 20

    run(story)


async def alter(served: Served, *resources: Resource) -> Any:
    """Return code and message of IncrementalAlterConfigs, one for the lot when they are the same."""
    responses = await altered(served, *resources)
    (response,) = {(response.error_code, response.error_message) for response in responses}
    return response


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            [(TOPIC, "t", [("retention.ms", SET, "1")]), (TOPIC, "t", [])],
            "Each resource must appear at most once.",
        ),
        (
            [(TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)])],
            "Error due to duplicate config keys",
        ),
        (
            [(TOPIC, "t", [("retention.ms", SET, None), ("segment.ms", 2, None)])],
            "Null value not supported for : retention.ms, segment.ms",
        ),
        ([(TOPIC, "", [("retention.ms", SET, "1")])], "Default topic resources are not allowed."),
        ([(TOPIC, "t", [("retention.ms", 9, "1")])], "Unknown operation 9 for retention.ms"),
        ([(GROUP, "g", [("x", SET, "1")])], "Unsupported resource type: 32"),
        (
            [(BROKER, "", [("advertised.listeners", SET, "PLAINTEXT://h:1")])],
            "Cannot update these configs at default cluster level: Set(advertised.listeners)",
        ),
    ],
)
def test_changes_that_contradict_themselves_change_nothing(
    run: Run, resources: list[Resource], message: str
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assert await alter(served, *resources) == (ErrorCode.INVALID_REQUEST, message)
        assert served.broker.context.effective_configs.topic_overrides("t") == {}

    run(story)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "0"), (BROKER, "")])
@pytest.mark.parametrize(("operation", "verb"), [(2, "append"), (3, "subtract")])
def test_only_lists_are_appended_to(
    run: Run, kind: int, name: str, operation: int, verb: str
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        key = "retention.ms" if kind == TOPIC else "log.retention.ms"
        reason = f"Config value {verb} is not allowed for config key: {key}"
        response = await alter(served, (kind, name, [(key, operation, "1")]))
        assert response == (ErrorCode.INVALID_CONFIG, reason)

    run(story)


def test_a_topic_that_does_not_exist_has_no_settings(run: Run) -> None:
    async def story(served: Served) -> None:
        code, _message = await alter(served, (TOPIC, "t", [("retention.ms", SET, "1")]))
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result = await described(served, TOPIC, "t")
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([("retention.ms", "1"), ("retention.ms", "2")], "Error due to duplicate config keys"),
        ([("retention.ms", None)], "Null value not supported for : retention.ms"),
    ],
)
def test_a_whole_set_that_contradicts_itself_changes_nothing(
    run: Run, values: list[tuple[str, str | None]], message: str
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        configs = [AlterConfigsRequestConfig(name=name, value=value) for name, value in values]
        resource = AlterConfigsRequestResource(
            resource_type=TOPIC, resource_name="t", configs=configs
        )
        (result,) = (await served.send(AlterConfigsRequest(resources=[resource]))).responses
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)
        response = await served.send(AlterConfigsRequest(resources=[resource, resource]))
        messages = {result.error_message for result in response.responses}
        assert messages == {"Each resource must appear at most once."}
        assert served.broker.context.effective_configs.topic_overrides("t") == {}

    run(story)


# Producers, coordinators, the cluster


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"producer_id": 7, "producer_epoch": 3}, ErrorCode.NONE),
        ({"producer_id": 7}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x"}, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_producer_id_is_returned_for_each_valid_request(
    run: Run, fields: dict[str, Any], code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        response = await served.send(InitProducerIdRequest(transaction_timeout_ms=1000, **fields))
        assert response.error_code == code
        granted = code is ErrorCode.NONE
        assert (response.producer_id >= 0, response.producer_epoch) == (
            granted,
            0 if granted else -1,
        )

    run(story)


@pytest.mark.parametrize("key_type", [2, 9])
def test_only_groups_and_transactions_have_coordinators(run: Run, key_type: int) -> None:
    async def story(served: Served) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
        response = await served.send(request)
        assert [c.key for c in response.coordinators] == ["a", "b"]
        assert {c.error_code for c in response.coordinators} == {ErrorCode.INVALID_REQUEST}
        assert all(c.error_message for c in response.coordinators)

    run(story)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_broker_describes_brokers(run: Run, endpoint_type: int, code: ErrorCode) -> None:
    async def story(served: Served) -> None:
        response = await served.send(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
        assert response.error_code == code
        old = await served.send(DescribeClusterRequest(), 0)
        assert (old.error_code, old.cluster_authorized_operations) == (ErrorCode.NONE, -(2**31))

    run(story)
