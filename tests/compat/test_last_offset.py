"""The group whose last offset is deleted is gone, as with Apache Kafka 3.9."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kavka.errors import ErrorCode
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.list_groups import ListGroupsRequest
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
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, until
from kavka_compat.ours import run_kavka

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
Ask = Callable[..., Any]


def test_a_group_without_offsets_and_members_is_gone_as_in_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", SETTINGS) as broker:
        theirs = responses(broker.bootstrap)
    with run_kavka(tmp_path / "kavka", SETTINGS) as broker:
        ours = responses(broker.bootstrap)
    assert ours == theirs
    assert ours["alone: after the last"][0] == []
    assert ours["alone: once more"] == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def responses(address: str) -> dict[str, Any]:
    """Ask one broker, and return what matters of its responses."""

    def asked(request: object, version: int | None = None) -> Any:
        return ask(address, request, version)

    prepare(asked)
    return {**of_a_group_without_members(asked), **of_a_group_with_a_member(asked, address)}


def of_a_group_without_members(asked: Ask) -> dict[str, Any]:
    found: dict[str, Any] = {"alone: nothing yet": delete(asked, "alone", ("t", 0))}
    commit(asked, "alone", ("t", 0), ("t", 1))
    found["alone: another partition"] = delete(asked, "alone", ("u", 0), ("n", 0))
    found["alone: the first"] = delete(asked, "alone", ("t", 0))
    found["alone: after the first"] = seen(asked, "alone")
    found["alone: the last"] = delete(asked, "alone", ("t", 1))
    found["alone: after the last"] = seen(asked, "alone")
    found["alone: once more"] = delete(asked, "alone", ("t", 1))
    commit(asked, "alone", ("u", 0))
    found["alone: begun again"] = seen(asked, "alone")
    return found


def of_a_group_with_a_member(asked: Ask, address: str) -> dict[str, Any]:
    """A group that reads `t`, and has an offset of `u` from before."""
    commit(asked, "reading", ("t", 0), ("u", 0))
    settings = {"bootstrap.servers": address, "group.id": "reading", "enable.auto.commit": False}
    found: dict[str, Any] = {}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["t"])
        until(lambda: bool(consumer.poll(0.1) or consumer.assignment()), what="assigned")
        found["reading: both"] = delete(asked, "reading", ("t", 0), ("u", 0))
        found["reading: with its member"] = seen(asked, "reading")
    until(lambda: seen(asked, "reading")[1][1] == "Empty", what="the member has left")
    found["reading: the last"] = delete(asked, "reading", ("t", 0))
    found["reading: after the last"] = seen(asked, "reading")
    return found


def commit(asked: Ask, group: str, *partitions: tuple[str, int]) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=0)],
        )
        for name, index in partitions
    ]
    response = asked(OffsetCommitRequest(group_id=group, topics=topics), 8)
    assert {row.error_code for topic in response.topics for row in topic.partitions} == {0}


def delete(
    asked: Ask, group: str, *partitions: tuple[str, int]
) -> tuple[int, list[tuple[str, int, int]]]:
    """Delete offsets; return the error, and topic, partition and error of each."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for name, index in partitions
    ]
    response = asked(OffsetDeleteRequest(group_id=group, topics=topics))
    rows = (
        (t.name, p.partition_index, p.error_code) for t in response.topics for p in t.partitions
    )
    return response.error_code, sorted(rows)


def seen(asked: Ask, group: str) -> tuple[list[str], tuple[int, str, str, int], list[object]]:
    """Return a group as it is listed and described, and its offsets."""
    listed = [
        f"{row.group_id} {row.protocol_type} {row.group_state}"
        for row in asked(ListGroupsRequest(), 4).groups
        if row.group_id == group
    ]
    (row,) = asked(DescribeGroupsRequest(groups=[group]), 4).groups
    described = (row.error_code, row.group_state, row.protocol_type, len(row.members))
    whole = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (offsets,) = asked(whole, 8).groups
    rows = sorted(
        (topic.name, one.partition_index, one.committed_offset, one.error_code)
        for topic in offsets.topics
        for one in topic.partitions
    )
    return listed, described, [offsets.error_code, *rows]


def prepare(asked: Ask) -> None:
    topics = [
        CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=1)
        for name in ("t", "u")
    ]
    creation = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    made = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}  # a new broker may not yet know itself
    until(lambda: {t.error_code for t in asked(creation).topics} <= made, what="topics are made")
    found = FindCoordinatorRequest(key_type=0, coordinator_keys=["alone"])
    until(lambda: asked(found).coordinators[0].error_code == 0, what="coordinator")
    whole = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="alone", topics=None)])
    until(lambda: asked(whole, 8).groups[0].error_code == 0, what="the group's shard is loaded")
