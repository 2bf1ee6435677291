"""The requests of a group member, and the parts of their responses that decide. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.client.consumer.group.assignors import Assignor, by_topic, flatten
from kavka.core.group_member.steps import (
    NO_GENERATION,
    JoinResult,
    MemberSettings,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    SyncResult,
)
from kavka.errors import ErrorCode
from kavka.wire.consumer_protocol import (
    Assignment,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kavka.wire.consumer_protocol import Subscription as WireSubscription
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_PROTOCOL_TYPE = "consumer"
_MAX_REASON = 255
_BATCHED_LEAVE_VERSION = 3
"""First version of LeaveGroup that has a list of members, and a reason."""


class GroupSettings(NamedTuple):
    """Settings of the group membership."""

    member: MemberSettings
    assignors: list[Assignor]
    rack: str | None
    exclude_internal: bool


def join_request(settings: GroupSettings, step: SendJoin) -> JoinGroupRequest:
    """Return the JoinGroup request, with the subscription for each assignor."""
    member = settings.member
    return JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.max_poll_interval_ms,
        member_id=step.member_id,
        group_instance_id=member.instance_id,
        protocol_type=_PROTOCOL_TYPE,
        protocols=_protocols(settings.assignors, settings.rack, step),
        reason=step.reason[:_MAX_REASON],
    )


def _protocols(
    assignors: Sequence[Assignor], rack: str | None, step: SendJoin
) -> list[JoinGroupRequestProtocol]:
    protocols = []
    for assignor in assignors:
        subscription = WireSubscription(
            topics=sorted(step.topics),
            user_data=assignor.user_data(step.owned, step.owned_generation),
            owned_partitions=by_topic(step.held),
            generation_id=step.owned_generation if step.held else NO_GENERATION,
            rack_id=rack,
        )
        metadata = encode_subscription(subscription)
        protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=metadata))
    return protocols


def join_result(response: JoinGroupResponse) -> JoinResult:
    """Return what a JoinGroup response says."""
    return JoinResult(
        ErrorCode.of(response.error_code),
        response.member_id,
        response.leader,
        response.generation_id,
        response.protocol_name or "",
        response.skip_assignment,
        tuple((m.member_id, m.group_instance_id, m.metadata) for m in response.members),
    )


def sync_request(member: MemberSettings, step: SendSync) -> SyncGroupRequest:
    """Return the SyncGroup request, with the leader's assignments."""
    return SyncGroupRequest(
        group_id=member.group_id,
        generation_id=step.generation,
        member_id=step.member_id,
        group_instance_id=member.instance_id,
        protocol_type=_PROTOCOL_TYPE,
        protocol_name=step.protocol_name,
        assignments=[
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(Assignment(assigned_partitions=by_topic(partitions))),
            )
            for member_id, partitions in step.assignments.items()
        ],
    )


def sync_result(response: SyncGroupResponse) -> SyncResult:
    """Return what a SyncGroup response says. Raise CorruptFrame."""
    code = ErrorCode.of(response.error_code)
    if code is not ErrorCode.NONE or not response.assignment:
        return SyncResult(code, [])
    return SyncResult(code, flatten(decode_assignment(response.assignment).assigned_partitions))


def heartbeat_request(member: MemberSettings, step: SendHeartbeat) -> HeartbeatRequest:
    """Return the Heartbeat request."""
    return HeartbeatRequest(
        group_id=member.group_id,
        generation_id=step.generation,
        member_id=step.member_id,
        group_instance_id=member.instance_id,
    )


def leave_request(member: MemberSettings, step: SendLeave, version: int) -> LeaveGroupRequest:
    """Return the LeaveGroup request in the shape of its version."""
    if version < _BATCHED_LEAVE_VERSION:
        return LeaveGroupRequest(group_id=member.group_id, member_id=step.member_id)
    leaving = LeaveGroupRequestMember(member_id=step.member_id, reason=step.reason)
    return LeaveGroupRequest(group_id=member.group_id, members=[leaving])
