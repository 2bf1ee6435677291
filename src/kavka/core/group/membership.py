"""Staying and leaving: heartbeats, LeaveGroup, and sessions that run out."""

from __future__ import annotations

from kavka.core.group import rebalance
from kavka.core.group.events import Heartbeat, Leave, LeaveReply, LeavingMember
from kavka.core.group.group import Group, GroupState
from kavka.core.group.step import Step
from kavka.errors import ErrorCode


def heartbeat(group: Group, event: Heartbeat, step: Step) -> ErrorCode:
    """Renew a member's session; REBALANCE_IN_PROGRESS makes it rejoin, and renews as well."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(event.member_id, event.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    step.renew_session(group.members[event.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, event: Leave, step: Step) -> LeaveReply:
    """Remove members from a group; the reply has an outcome for each."""
    if group.state is GroupState.DEAD:
        return LeaveReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return LeaveReply(ErrorCode.NONE, tuple((m, _leave(group, m, step)) for m in event.members))


def _leave(group: Group, leaving: LeavingMember, step: Step) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        member_id = group.static_members.get(leaving.group_instance_id, "")
    if member_id in group.pending_members:
        rebalance.remove_pending_member(group, member_id, step)
        return ErrorCode.NONE
    error = group.check_member(member_id, leaving.group_instance_id)
    if error is ErrorCode.NONE:
        rebalance.remove_member(group, member_id, step)
    return error


def expire_sessions(group: Group, step: Step) -> None:
    """Drop the members without a heartbeat for their session timeout, except those that wait for a response."""
    for member_id in [
        i for i, deadline in group.pending_members.items() if deadline <= step.now_ms
    ]:
        rebalance.remove_pending_member(group, member_id, step)
    for member in [m for m in group.members.values() if m.session_deadline_ms <= step.now_ms]:
        if member.member_id not in group.members:
            continue  # dropped by the rebalance that an earlier one of these began
        if member.is_waiting:
            step.renew_session(member)
        else:
            rebalance.remove_member(group, member.member_id, step)


def next_deadline(group: Group) -> int | None:
    """Return when the group must be checked next; this checks every member."""
    deadlines = [m.session_deadline_ms for m in group.members.values()]
    deadlines += group.pending_members.values()
    if group.join_deadline_ms is not None:
        deadlines.append(group.join_deadline_ms)
    if group.sync_deadline_ms is not None:
        deadlines.append(group.sync_deadline_ms)
    return min(deadlines, default=None)
