"""Groups: list, describe, delete, and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.client import arguments
from kavka.client.admin.acls import authorized_operations
from kavka.client.admin.router import Router, plain, refusal
from kavka.client.consumer.group.assignors import flatten
from kavka.client.consumer.offsets import fetch_request, fetched_offsets
from kavka.client.consumer.subscription import as_offsets
from kavka.client.metadata import BrokerAddress
from kavka.client.partitions import partitions_of
from kavka.core.access.names import AclOperation
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.core.topic_partitions import group_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.consumer_protocol import decode_assignment
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
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

_STATES_VERSION = 4
_TYPES_VERSION = 5
_MEMBERS_VERSION = 3


class GroupListing(NamedTuple):
    """A group as brokers list it; state and type are empty before Kafka 2.6 and 3.8."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """A member of a group; `assignment` is empty for protocols other than the consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group at its coordinator; `protocol` is the assignor. A group that does not exist is in the state Dead."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[MemberDescription]
    coordinator: BrokerAddress
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that the client may do with the group, if it was asked for (KIP-430)."""


async def list_groups(
    router: Router,
    states: Sequence[str],
    types: Sequence[str],
    timeout_ms: int | None,
    failures: dict[BrokerId, Exception] | None,
) -> list[GroupListing]:
    """See `Admin.list_groups`."""
    states, types = arguments.names("states", states), arguments.names("types", types)

    def build(peer: Peer) -> tuple[ListGroupsRequest, int]:
        version = peer.version_of(ApiKey.LIST_GROUPS)
        needed = _TYPES_VERSION if types else _STATES_VERSION if states else 0
        if version < needed:
            detail = f"{peer.name} is too old to filter groups"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        return ListGroupsRequest(states_filter=states, types_filter=types), version

    answers: dict[BrokerId, ListGroupsResponse] = await router.each_broker(
        build, timeout_ms, failures
    )
    found = {
        group.group_id: GroupListing(
            group.group_id, group.protocol_type, group.group_state, group.group_type
        )
        for response in answers.values()
        for group in response.groups
    }
    return list(found.values())


async def describe_groups(
    router: Router, group_ids: Iterable[str], include_operations: bool, timeout_ms: int | None
) -> dict[str, GroupDescription | Exception]:
    """See `Admin.describe_groups`."""

    async def ask(group_id: str) -> GroupDescription:
        request = DescribeGroupsRequest(
            groups=[group_id], include_authorized_operations=include_operations
        )
        response: DescribeGroupsResponse = await router.coordinator(
            group_id, plain(request), lambda a: (g.error_code for g in a.groups), timeout_ms
        )
        group = response.groups[0]
        refused = refusal(group.error_code, None, f"group {group_id}")
        if refused is not None:
            if refused.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise refused
            group.group_state = "Dead"
        coordinator_id = await router.cluster.find_coordinator(group_id)
        return _description(group, router.cluster.metadata.brokers[coordinator_id])

    return await router.gather((g, ask(g)) for g in arguments.names("group_ids", group_ids))


def _description(
    group: DescribeGroupsResponseGroup, coordinator: BrokerAddress
) -> GroupDescription:
    is_consumer = group.protocol_type == "consumer"
    members = [
        MemberDescription(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            _assignment(m) if is_consumer else [],
        )
        for m in group.members
    ]
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        members,
        coordinator,
        authorized_operations(group.authorized_operations),
    )


def _assignment(member: DescribeGroupsResponseMember) -> list[TopicPartition]:
    if not member.member_assignment:
        return []
    try:
        return flatten(decode_assignment(member.member_assignment).assigned_partitions)
    except CorruptFrame:
        return []  # members may put there what they like


async def delete_groups(
    router: Router, group_ids: Iterable[str], timeout_ms: int | None
) -> dict[str, Exception | None]:
    """See `Admin.delete_groups`."""

    async def ask(group_id: str) -> None:
        response = await router.coordinator(
            group_id,
            plain(DeleteGroupsRequest(groups_names=[group_id])),
            lambda a: (r.error_code for r in a.results),
            timeout_ms,
        )
        refused = refusal(response.results[0].error_code, None, f"group {group_id}")
        if refused is not None:
            raise refused

    return await router.gather((g, ask(g)) for g in arguments.names("group_ids", group_ids))


async def remove_members(
    router: Router,
    group_id: str,
    instance_ids: Sequence[str] | None,
    reason: str,
    timeout_ms: int | None,
) -> dict[str, KafkaError | None]:
    """See `Admin.remove_members`."""
    arguments.name("group_id", group_id)
    if instance_ids is None:
        described = (await describe_groups(router, [group_id], False, timeout_ms))[group_id]
        if isinstance(described, Exception):
            raise described
        chosen = [(member.member_id, member.instance_id) for member in described.members]
    else:
        chosen = [
            ("", instance_id) for instance_id in arguments.names("instance_ids", instance_ids)
        ]
    if not chosen:
        return {}

    def build(peer: Peer) -> tuple[LeaveGroupRequest, int]:
        version = peer.version_of(ApiKey.LEAVE_GROUP)
        if version < _MEMBERS_VERSION:
            detail = f"{peer.name} is too old to remove static members"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        members = [
            LeaveGroupRequestMember(
                member_id=member_id, group_instance_id=instance_id, reason=reason
            )
            for member_id, instance_id in chosen
        ]
        return LeaveGroupRequest(group_id=group_id, members=members), version

    response = await router.coordinator(group_id, build, lambda a: (a.error_code,), timeout_ms)
    refused = refusal(response.error_code)
    if refused is not None:
        raise refused
    return {m.group_instance_id or m.member_id: refusal(m.error_code) for m in response.members}


async def list_group_offsets(
    router: Router,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    require_stable: bool,
    timeout_ms: int | None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """See `Admin.list_group_offsets`."""
    arguments.name("group_id", group_id)
    wanted = None if partitions is None else partitions_of(partitions)
    versions: list[int] = []

    def build(peer: Peer) -> tuple[Any, int]:
        version = peer.version_of(ApiKey.OFFSET_FETCH)
        versions.append(version)
        return fetch_request(group_id, wanted, version, require_stable), version

    def codes(response: Any) -> Iterable[int]:
        for group in response.groups or (response,):
            yield group.error_code
            for topic in group.topics:  # offsets of open transactions are waited for
                yield from (part.error_code for part in topic.partitions)

    response = await router.coordinator(group_id, build, codes, timeout_ms)
    return fetched_offsets(response, versions[-1])


async def alter_group_offsets(
    router: Router,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    timeout_ms: int | None,
) -> dict[TopicPartition, KafkaError | None]:
    """See `Admin.alter_group_offsets`."""
    arguments.name("group_id", group_id)
    topics = group_by_topic(
        (topic_partition, _commit_part(topic_partition[1], given))
        for topic_partition, given in as_offsets(offsets).items()
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=t, partitions=p) for t, p in topics.items()],
    )
    response = await router.coordinator(group_id, plain(request), _partition_codes, timeout_ms)
    return _partition_outcomes(response)


def _commit_part(partition: int, committed: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


async def delete_group_offsets(
    router: Router,
    group_id: str,
    partitions: Iterable[TopicPartition],
    timeout_ms: int | None,
) -> dict[TopicPartition, KafkaError | None]:
    """See `Admin.delete_group_offsets`."""
    arguments.name("group_id", group_id)
    topics = group_by_topic(
        (topic_partition, OffsetDeleteRequestPartition(partition_index=topic_partition[1]))
        for topic_partition in partitions_of(partitions)
    )
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=t, partitions=p) for t, p in topics.items()],
    )
    response = await router.coordinator(
        group_id, plain(request), lambda a: (a.error_code,), timeout_ms
    )
    refused = refusal(response.error_code, None, f"group {group_id}")
    if refused is not None:
        raise refused
    return _partition_outcomes(response)


def _partition_codes(response: Any) -> Iterable[int]:
    return (part.error_code for topic in response.topics for part in topic.partitions)


def _partition_outcomes(response: Any) -> dict[TopicPartition, KafkaError | None]:
    return {
        (topic_partition := TopicPartition(topic.name, part.partition_index)): refusal(
            part.error_code, None, str(topic_partition)
        )
        for topic in response.topics
        for part in topic.partitions
    }


__all__ = ["BrokerId", "GroupDescription", "GroupListing", "MemberDescription"]
