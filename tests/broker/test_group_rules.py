"""Requests that members and administrators of groups may send: the rules of Kafka 3.9 and its codes, on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.describe_groups import DescribeGroupsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
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
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)
from kavka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.one_broker import Run, Served

NOT_ASKED = -(2**31)
SUBSCRIBED_TO_T = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


async def ready(served: Served) -> None:
    """Make the topic `t` and the topic of the groups."""
    await served.topic("t")
    await served.send(FindCoordinatorRequest(key="g"), 3)


async def join(
    served: Served, member_id: str = "", version: int = 7, *, instance: str | None = None
) -> Any:
    protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIBED_TO_T)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return await served.send(request, version)


async def sync(served: Served, member_id: str, generation: int, **protocol: str | None) -> Any:
    part = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        assignments=[part],
        **{"protocol_type": "consumer", "protocol_name": "range", **protocol},
    )
    return await served.send(request, 5)


async def member(served: Served, instance: str | None = None) -> tuple[str, int]:
    """Join and sync as the only member; return its id and the generation."""
    joined = await join(served, instance=instance)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = await join(served, joined.member_id)
    assert joined.error_code == ErrorCode.NONE
    synced = await sync(served, joined.member_id, joined.generation_id)
    assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.NONE, b"all")
    return joined.member_id, joined.generation_id


async def commit(
    served: Served,
    version: int = 8,
    *,
    member_id: str = "",
    generation: int = -1,
    partitions: tuple[int, ...] = (0,),
    metadata: str | None = "",
    **fields: Any,
) -> list[int]:
    asked = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_metadata=metadata
        )
        for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="t", partitions=asked)],
        **fields,
    )
    response = await served.send(request, version)
    return [partition.error_code for partition in response.topics[0].partitions]


# Joining


def test_only_new_versions_send_a_member_away_with_its_id(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        sent_away = await join(served, version=4)
        assert sent_away.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert sent_away.member_id.startswith("test-")
        joined = await join(served, sent_away.member_id, 4)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        assert joined.leader == joined.member_id == sent_away.member_id

    run(story)


@pytest.mark.parametrize("version", [0, 3])
def test_old_versions_take_a_member_in_at_once(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        joined = await join(served, version=version)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        assert joined.leader == joined.member_id != ""

    run(story)


def test_an_unknown_member_cannot_join(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        joined = await join(served, "nonexistent")
        assert (joined.error_code, joined.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nonexistent")
        assert (joined.generation_id, joined.leader, joined.members) == (-1, "", [])

    run(story)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_a_member_that_syncs_without_its_protocol_is_refused(run: Run, missing: str) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        member_id, generation = await member(served)
        synced = await sync(served, member_id, generation, **{missing: None})
        assert synced.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run(story)


def test_an_assignment_beyond_the_memory_of_members_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        joined = await join(served, instance="i")
        part = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(150_000))
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[part],
        )
        refused = await served.send(request, 3)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        synced = await sync(served, joined.member_id, joined.generation_id)
        assert synced.error_code == ErrorCode.NONE

    run(story, kavka__group__members__max__bytes="200000")


def test_a_static_member_that_comes_back_fences_its_former_self(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        old, generation = await member(served, "i")
        again = await join(served, instance="i")
        assert (again.error_code, again.generation_id) == (ErrorCode.NONE, generation)
        assert again.member_id != old
        beat = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=old, group_instance_id="i"
        )
        assert (await served.send(beat)).error_code == ErrorCode.FENCED_INSTANCE_ID
        codes = await commit(served, member_id=old, generation=generation, group_instance_id="i")
        assert codes == [ErrorCode.FENCED_INSTANCE_ID]
        beat.member_id = again.member_id
        assert (await served.send(beat)).error_code == ErrorCode.NONE

    run(story)


# Leaving


def test_each_member_that_leaves_has_its_own_response(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        member_id, _generation = await member(served, "i")
        leaving = [
            LeaveGroupRequestMember(member_id="nonexistent"),
            LeaveGroupRequestMember(member_id="", group_instance_id="j"),
            LeaveGroupRequestMember(member_id="other", group_instance_id="i"),
            LeaveGroupRequestMember(member_id="", group_instance_id="i"),
            LeaveGroupRequestMember(member_id=member_id),
        ]
        response = await served.send(LeaveGroupRequest(group_id="g", members=leaving))
        assert response.error_code == ErrorCode.NONE
        assert [m.error_code for m in response.members] == [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]

    run(story)


def test_an_old_version_has_one_response_for_its_one_member(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        request = LeaveGroupRequest(group_id="g", member_id="nonexistent")
        assert (await served.send(request, 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(story)


# Describing and deleting


@pytest.mark.parametrize(("asked", "operations"), [(False, NOT_ASKED), (True, 0b101001000)])
def test_an_unknown_group_is_dead(run: Run, asked: bool, operations: int) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
        (group,) = (await served.send(request)).groups
        assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Dead")
        assert (group.protocol_type, group.protocol_data, group.members) == ("", "", [])
        assert group.authorized_operations == operations

    run(story)


def test_only_empty_groups_are_deleted(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        await member(served)
        response = await served.send(DeleteGroupsRequest(groups_names=["g", "nonexistent", "g"]))
        assert [(r.group_id, r.error_code) for r in response.results] == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("nonexistent", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    run(story)


# Offsets


def test_an_administrator_may_commit_for_an_empty_group_only(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        assert await commit(served, member_id="any-member") == [ErrorCode.NONE]
        assert await commit(served, member_id="any-member", generation=1) == [
            ErrorCode.UNKNOWN_MEMBER_ID
        ]
        member_id, generation = await member(served)
        assert await commit(served) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert await commit(served, member_id=member_id) == [ErrorCode.ILLEGAL_GENERATION]
        codes = await commit(served, member_id=member_id, generation=generation)
        assert codes == [ErrorCode.NONE]

    run(story)


def test_a_generation_of_an_unknown_group_is_illegal(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        codes = await commit(served, member_id="m", generation=3)
        assert codes == [ErrorCode.ILLEGAL_GENERATION]

    run(story)


def test_only_partitions_that_exist_are_committed(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        assert await commit(served, partitions=(7, 0)) == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]

    run(story)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 8, ErrorCode.NONE),
        ("ž" * 8, ErrorCode.NONE),
        ("x" * 9, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("😀" * 4, ErrorCode.NONE),
        ("😀" * 5, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
)
def test_metadata_of_an_offset_is_bounded_in_characters_of_java(
    run: Run, metadata: str | None, code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        assert await commit(served, metadata=metadata) == [code]

    run(story, offset__metadata__max__bytes="8")


def test_offsets_of_several_groups_are_fetched_at_once(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        await commit(served, metadata="m", partitions=(0,))
        some = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0, 1])
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id="g", topics=[some]),
                OffsetFetchRequestGroup(group_id="g", topics=None),
                OffsetFetchRequestGroup(group_id="other", topics=None),
            ],
            require_stable=True,
        )
        response = await served.send(request)
        found = [
            (
                group.group_id,
                group.error_code,
                [
                    (topic.name, p.partition_index, p.committed_offset, p.metadata, p.error_code)
                    for topic in group.topics
                    for p in topic.partitions
                ],
            )
            for group in response.groups
        ]
        committed, nothing = ("t", 0, 5, "m", 0), ("t", 1, -1, "", 0)
        assert found == [("g", 0, [committed, nothing]), ("g", 0, [committed]), ("other", 0, [])]

    run(story)


@pytest.mark.parametrize("version", [1, 2, 7])
def test_the_error_of_a_group_is_where_each_version_looks_for_it(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")  # and no topic of the groups, so there is no coordinator
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        response = await served.send(OffsetFetchRequest(group_id="g", topics=[topic]), version)
        if version < 2:
            (partition,) = response.topics[0].partitions
            assert (partition.error_code, partition.committed_offset) == (
                ErrorCode.NOT_COORDINATOR,
                -1,
            )
        else:
            assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])

    run(story)


def test_offsets_of_a_topic_that_is_read_are_not_deleted(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        await served.topic("u")
        await member(served)
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[partition])
            for name in ("t", "u", "nonexistent")
        ]
        response = await served.send(OffsetDeleteRequest(group_id="g", topics=topics))
        assert response.error_code == ErrorCode.NONE
        assert {t.name: t.partitions[0].error_code for t in response.topics} == {
            "t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "u": ErrorCode.NONE,
            "nonexistent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        response = await served.send(OffsetDeleteRequest(group_id="nonexistent", topics=topics))
        assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    run(story)


# The end of the broker


def test_waiting_members_are_answered_when_their_coordinator_stops(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        await member(served)
        peers = [await served.another() for _ in range(3)]
        waiting = [asyncio.create_task(join(peer, version=3)) for peer in peers]
        for _ in range(10_000):
            (group,) = (await served.send(DescribeGroupsRequest(groups=["g"]))).groups
            if len(group.members) == 1 + len(waiting):
                break
        await served.broker.stop()
        responses = await asyncio.gather(*waiting)
        assert {response.error_code for response in responses} == {ErrorCode.NOT_COORDINATOR}

    run(story)
