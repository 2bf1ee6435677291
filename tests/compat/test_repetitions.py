"""Requests that name something more than once: merged, refused or answered each time, as in Apache Kafka 3.9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
)
from kavka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kavka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, until
from kavka_compat.ours import run_kavka

pytestmark = pytest.mark.compat

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
Ask = Callable[..., Any]


def test_what_is_named_repeatedly_is_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", SETTINGS) as broker:
        apache = responses(broker.bootstrap)
    with run_kavka(tmp_path / "kavka", SETTINGS) as broker:
        ours = responses(broker.bootstrap)
    assert ours == apache


def responses(address: str) -> dict[str, object]:
    """Ask one broker everything, and return what matters of its responses."""

    def asked(request: object, version: int | None = None) -> Any:
        return ask(address, request, version)

    prepare(asked)
    return {
        **of_topics(asked),
        **of_offsets(asked),
        **of_groups(asked),
        **of_partitions(asked),
        **of_settings(asked),
    }


def prepare(asked: Ask) -> None:
    topics = [
        CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=1)
        for name in ("t", "u")
    ]
    creation = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    made = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}  # a new broker may not yet know itself
    until(lambda: {t.error_code for t in asked(creation).topics} <= made, what="topics are made")
    known = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("t", "u")],
        allow_auto_topic_creation=False,
    )
    until(lambda: {t.error_code for t in asked(known).topics} == {0}, what="the topics are known")
    for kind in (0, 1):
        found = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
        until(lambda found=found: asked(found).coordinators[0].error_code == 0, what="coordinator")  # type: ignore[misc]
    whole = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    until(lambda: asked(whole, 8).groups[0].error_code == 0, what="the group's shard is loaded")
    states = DescribeTransactionsRequest(transactional_ids=["x"])
    loaded = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    until(lambda: asked(states).transaction_states[0].error_code == loaded, what="loaded")


def of_topics(asked: Ask) -> dict[str, object]:
    new = [CreateTopicsRequestTopic(name=n, num_partitions=1, replication_factor=1) for n in "xyxx"]
    created = asked(CreateTopicsRequest(topics=new, timeout_ms=30_000)).topics
    named = [MetadataRequestTopic(name=name) for name in ("t", "u", "t", "n", "n")]
    known = asked(MetadataRequest(topics=named, allow_auto_topic_creation=False)).topics
    grown = [CreatePartitionsRequestTopic(name=n, count=9, assignments=None) for n in "xxn"]
    results = asked(CreatePartitionsRequest(topics=grown, timeout_ms=30_000)).results
    gone = [DeleteTopicsRequestTopic(name=name) for name in "nnn"]
    deleted = asked(DeleteTopicsRequest(topics=gone, timeout_ms=30_000), 6).responses
    return {
        "CreateTopics": sorted((row.name, row.error_code) for row in created),
        "Metadata": sorted((row.name, row.error_code) for row in known),
        "CreatePartitions": sorted((row.name, row.error_code) for row in results),
        # Apache Kafka 3.9 answers each with ZooKeeper, and INVALID_REQUEST once with KRaft, as we do.
        "DeleteTopics": {row.name for row in deleted},
    }


def by_topic(topics: Any, rows: str = "partitions") -> list[object]:
    """Return the topics of a response with what became of their partitions; neither order matters."""
    return sorted(  # type: ignore[return-value]
        (topic.name, sorted((row.partition_index, row.error_code) for row in getattr(topic, rows)))
        for topic in topics
    )


def of_offsets(asked: Ask) -> dict[str, object]:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in ((0, 5), (1, 6), (0, 7), (9, 1), (9, 1))
    ]
    again = [OffsetCommitRequestPartition(partition_index=0, committed_offset=9)]
    commit = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name="t", partitions=rows),
            OffsetCommitRequestTopic(name="u", partitions=again),
            OffsetCommitRequestTopic(name="t", partitions=again),
            OffsetCommitRequestTopic(name="n", partitions=again),
            OffsetCommitRequestTopic(name="n", partitions=again),
        ],
    )
    committed = asked(commit, 8).topics
    twice = [
        OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 0, 9, 9]),
        OffsetFetchRequestTopic(name="t", partition_indexes=[0]),
    ]
    fetched = asked(OffsetFetchRequest(group_id="g", topics=twice), 7).topics
    groups = [OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g", "h", "g", "h")]
    many = asked(OffsetFetchRequest(groups=groups), 8).groups
    gone = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 0, 9, 9)]
    delete = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=gone)] * 2
    )
    return {
        "OffsetCommit": by_topic(committed),
        "OffsetFetch": by_topic(fetched),
        "what was committed": sorted(
            (row.partition_index, row.committed_offset) for row in fetched[0].partitions
        ),
        "OffsetFetch of groups": [(group.group_id, by_topic(group.topics)) for group in many],
        "OffsetDelete": by_topic(asked(delete).topics),
    }


def of_groups(asked: Ask) -> dict[str, object]:
    described = asked(DescribeGroupsRequest(groups=["g", "h", "g", "h"])).groups
    deleted = asked(DeleteGroupsRequest(groups_names=["h", "k", "h", "k"])).results
    members = [LeaveGroupRequestMember(member_id=member) for member in "aab"]
    left = asked(LeaveGroupRequest(group_id="g", members=members)).members
    keys = asked(FindCoordinatorRequest(coordinator_keys=["g", "h", "g"])).coordinators
    states = asked(DescribeTransactionsRequest(transactional_ids=["a", "b", "a"]))
    return {
        "DescribeGroups": [(group.group_id, group.error_code) for group in described],
        "DeleteGroups": sorted((row.group_id, row.error_code) for row in deleted),
        "LeaveGroup": [(row.member_id, row.error_code) for row in left],
        "FindCoordinator": [(row.key, row.error_code) for row in keys],
        "DescribeTransactions": [
            (row.transactional_id, row.error_code) for row in states.transaction_states
        ],
    }


def of_partitions(asked: Ask) -> dict[str, object]:
    ends = [ListOffsetsRequestPartition(partition_index=n, timestamp=-1) for n in (0, 1, 0)]
    listed = asked(
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=ends)]
        )
    )
    epochs = [OffsetForLeaderEpochRequestPartition(partition=n, leader_epoch=0) for n in (0, 1, 0)]
    of_epoch = asked(
        OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[OffsetForLeaderEpochRequestTopic(topic="t", partitions=epochs)] * 2,
        )
    )
    starts = [DeleteRecordsRequestPartition(partition_index=n, offset=0) for n in (0, 0, 9, 9)]
    records = DeleteRecordsRequest(
        timeout_ms=30_000, topics=[DeleteRecordsRequestTopic(name="t", partitions=starts)] * 2
    )
    writers = DescribeProducersRequestTopic(name="t", partition_indexes=[0, 0, 9, 9])
    producers = asked(DescribeProducersRequest(topics=[writers, writers])).topics
    logs = DescribeLogDirsRequestTopic(topic="t", partitions=[0, 0, 9])
    (directory,) = asked(DescribeLogDirsRequest(topics=[logs, logs])).results
    moved = AlterReplicaLogDirsRequestTopic(name="t", partitions=[0, 0, 1])
    move = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequestDir(path=path, topics=[moved, moved])
            for path in ("/nowhere", "/elsewhere")
        ]
    )
    results = asked(move).results
    return {
        "ListOffsets": by_topic(listed.topics),
        "OffsetForLeaderEpoch": [
            [(row.partition, row.error_code) for row in topic.partitions]
            for topic in of_epoch.topics
        ],
        "DeleteRecords": by_topic(asked(records).topics),
        "DescribeProducers": by_topic(producers),
        "DescribeLogDirs": [
            (topic.name, [row.partition_index for row in topic.partitions])
            for topic in directory.topics
        ],
        "AlterReplicaLogDirs": [
            (topic.topic_name, sorted((r.partition_index, r.error_code) for r in topic.partitions))
            for topic in results
        ],
    }


def of_settings(asked: Ask) -> dict[str, object]:
    resources = [
        DescribeConfigsRequestResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "t"), (2, "t"), (2, "n"), (2, "n"), (4, "0"), (4, "0"))
    ]
    described = asked(DescribeConfigsRequest(resources=resources)).results
    changes = [
        IncrementalAlterConfigsRequestResource(resource_type=2, resource_name=name)
        for name in ("t", "u", "t")
    ]
    altered = asked(IncrementalAlterConfigsRequest(resources=changes, validate_only=True))
    return {
        "DescribeConfigs": [(row.resource_name, row.error_code) for row in described],
        "IncrementalAlterConfigs": sorted(
            (row.resource_name, row.error_code) for row in altered.responses
        ),
    }
