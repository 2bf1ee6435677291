"""SyncGroup: the leader brings the assignment of a generation, each member gets its part once that is stored."""

from __future__ import annotations

from kavka.core.group import rebalance
from kavka.core.group.events import Sync, SyncReply
from kavka.core.group.group import Group, GroupState, Member
from kavka.core.group.records import StoredGroup
from kavka.core.group.step import Step
from kavka.errors import ErrorCode


def sync(group: Group, event: Sync, step: Step) -> None:
    """Reply with a member's assignment, now or when the leader's is stored."""
    error = _check(group, event)
    if error is not ErrorCode.NONE:
        step.reply(event.token, SyncReply(error))
        return
    is_assigning = (
        group.state is not GroupState.STABLE
        and event.member_id == group.leader
        and group.storing_generation_id != group.generation_id
    )
    stored = group.to_store(dict(event.assignments), step.now_ms) if is_assigning else None
    if stored is not None and not _has_memory(group, stored, step):
        step.reply(event.token, SyncReply(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member = group.members[event.member_id]
    group.pending_sync.pop(event.member_id, None)
    if not group.pending_sync:
        group.sync_deadline_ms = None
    step.renew_session(member)
    if group.state is GroupState.STABLE:
        step.reply(event.token, assigned_reply(group, member))
        return
    if member.sync_token is not None:
        step.reply(member.sync_token, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_token = event.token
    if stored is not None:
        _store_assignment(group, stored, step)


def _has_memory(group: Group, stored: StoredGroup, step: Step) -> bool:
    return group.has_memory(group.growth_by(stored), step.settings.max_members_bytes)


def _check(group: Group, event: Sync) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(event.member_id, event.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type is not None and event.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if event.protocol_name is not None and event.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _store_assignment(group: Group, stored: StoredGroup, step: Step) -> None:
    """Store the generation; members that wait get their parts when it is committed. The left out get nothing."""
    step.store(group, stored)
    group.storing_generation_id = group.generation_id
    for part in stored.members:
        member = group.members[part.member_id]
        if member.sync_token is not None:
            reply = SyncReply(
                ErrorCode.NONE, group.protocol_type, group.protocol_name, part.assignment
            )
            step.reply(member.sync_token, reply)
            member.sync_token = None
            step.renew_session(member)


def assigned_reply(group: Group, member: Member) -> SyncReply:
    """Return the reply that gives a member of a stable group its part."""
    return SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def assignment_stored(group: Group, stored: StoredGroup) -> None:
    """Make the group stable, unless it has moved on while the record was in progress."""
    is_awaited = (
        group.state is GroupState.COMPLETING_REBALANCE
        and group.generation_id == stored.generation_id
    )
    if not is_awaited or not stored.members:
        return
    # Its moment is the record's, as after loading: apply has no clock.
    group.move_to(GroupState.STABLE, stored.state_timestamp_ms)
    for part in stored.members:
        member = group.members[part.member_id]
        group.assign(member, part.assignment)
        group.has_late_syncs = group.has_late_syncs or member.sync_token is not None


def reply_to_late_syncs(group: Group, step: Step) -> None:
    """Answer SyncGroups that arrived after the decision on the replies, while the record was pending."""
    group.has_late_syncs = False
    for member in group.members.values():
        if member.sync_token is not None:
            step.reply(member.sync_token, assigned_reply(group, member))
            member.sync_token = None
            step.renew_session(member)


def assignment_refused(group: Group, stored: StoredGroup, error: ErrorCode, step: Step) -> None:
    """Begin another rebalance after the generation could not be stored."""
    if group.storing_generation_id == stored.generation_id:
        group.storing_generation_id = -1
    if (
        group.state is GroupState.COMPLETING_REBALANCE
        and group.generation_id == stored.generation_id
    ):
        rebalance.refuse_syncs(group, error, step)
        rebalance.begin(group, step)
