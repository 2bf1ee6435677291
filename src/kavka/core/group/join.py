"""JoinGroup: checks of the member and its id, and whether the group rebalances.

A member without id is given one. From version 4 on a dynamic member gets it with MEMBER_ID_REQUIRED and joins again
(KIP-394), so that a client that lost the response does not leave an unused member behind. A static member
(group.instance.id, KIP-345) that comes without id replaces the member of that instance, which is fenced; while the
group is stable that needs no rebalance, only a record of the new id.
"""

from __future__ import annotations

from kavka.core.group import rebalance
from kavka.core.group.events import Join, JoinReply, SyncReply
from kavka.core.group.group import Group, GroupState, Member, protocols_bytes
from kavka.core.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from kavka.core.group.step import Step
from kavka.errors import ErrorCode


def join(group: Group, event: Join, step: Step) -> None:
    """Add a member to a group; the reply leaves now or when all members have joined."""
    if group.state is GroupState.DEAD:
        refuse(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, step)
    elif not _accepts_member(group, event.member_id, step):
        _refuse(group, event, step)
    elif not _has_memory(group, event, step):
        refuse(event, ErrorCode.GROUP_MAX_SIZE_REACHED, step)
    elif not group.speaks(event.protocol_type, event.protocols):
        refuse(event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, step)
    elif not event.member_id:
        _join_without_id(group, event, step)
    elif event.member_id in group.pending_members:
        _add(group, event, event.member_id, step)
    else:
        _rejoin(group, event, step)
    rebalance.complete_if_all_joined(group, step)


def refuse(event: Join, error: ErrorCode, step: Step) -> None:
    """Answer a join with an error; the member keeps its id."""
    step.reply(event.token, JoinReply(error, event.member_id))


def _accepts_member(group: Group, member_id: str, step: Step) -> bool:
    """Count waiting members while a rebalance is prepared, so that a group that is too large shrinks."""
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is not GroupState.PREPARING_REBALANCE:
        return member is not None or len(group.members) < step.settings.max_size
    if member is not None and member.join_token is not None:
        return True
    waiting = sum(m.join_token is not None for m in group.members.values())
    return waiting < step.settings.max_size


def _has_memory(group: Group, event: Join, step: Step) -> bool:
    """Return whether the members of all groups are within their bound. A member without more bytes may stay."""
    former_id = None
    if not event.member_id and event.group_instance_id is not None:
        former_id = group.static_members.get(event.group_instance_id)
    member = group.members.get(event.member_id if former_id is None else former_id)
    known = 0 if member is None else protocols_bytes(member.protocols)
    growth = protocols_bytes(event.protocols) - known
    # A static member that comes back has its group stored once more.
    if growth <= 0 and former_id is None:
        return True
    return group.has_memory(growth, step.settings.max_members_bytes)


def _refuse(group: Group, event: Join, step: Step) -> None:
    if event.member_id in group.members:
        group.remove(event.member_id)
    group.forget_pending(event.member_id)
    step.reply(event.token, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED))


def _join_without_id(group: Group, event: Join, step: Step) -> None:
    new_id = event.new_member_id
    if event.group_instance_id is not None:
        old_id = group.static_members.get(event.group_instance_id)
        if old_id is None:
            _add(group, event, new_id, step)
        else:
            _replace_static(group, old_id, event, step)
    elif event.requires_known_member_id:
        group.await_member(new_id, step.wake(step.now_ms + event.session_timeout_ms))
        step.reply(event.token, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    else:
        _add(group, event, new_id, step)


def _rejoin(group: Group, event: Join, step: Step) -> None:
    error = group.check_member(event.member_id, event.group_instance_id)
    if error is not ErrorCode.NONE:
        refuse(event, error, step)
        return
    member = group.members[event.member_id]
    is_same = member.protocols == event.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_same:
        # It lost our reply: the generation stands, and it may sync.
        _reply_with_current_generation(group, member, event, step)
    elif group.state is GroupState.STABLE and is_same and group.leader != event.member_id:
        _reply_with_current_generation(group, member, event, step)
    else:
        # A leader that joins again while stable wants new assignments, though nothing else has changed.
        _update(group, member, event, step)
        rebalance.begin_if_possible(group, step)


def _reply_with_current_generation(group: Group, member: Member, event: Join, step: Step) -> None:
    step.renew_session(member)
    step.reply(event.token, rebalance.joined_reply(group, member))


def _add(group: Group, event: Join, member_id: str, step: Step) -> None:
    member = Member(
        member_id,
        event.group_instance_id,
        event.client_id,
        event.client_host,
        event.rebalance_timeout_ms,
        event.session_timeout_ms,
        event.protocols,
    )
    member.is_new = True
    member.join_token = event.token
    member.session_deadline_ms = step.wake(step.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    if not group.members:
        group.protocol_type = event.protocol_type
    group.add(member)
    group.has_new_member = group.generation_id == 0
    rebalance.begin_if_possible(group, step)


def _update(group: Group, member: Member, event: Join, step: Step) -> None:
    if member.join_token is not None and member.join_token != event.token:
        # Its client gave the first request up and reads no response, but no token is left without one.
        step.reply(member.join_token, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.join_token = event.token
    _update_static_member(group, member, event)
    step.renew_session(member)


def _update_static_member(group: Group, member: Member, event: Join) -> None:
    group.update_protocols(member, event.protocols)
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.session_timeout_ms = event.session_timeout_ms


def _replace_static(group: Group, old_id: str, event: Join, step: Step) -> None:
    """Replace a static member by its new incarnation, and fence the old one."""
    former_leader = group.leader
    member = group.members[old_id]
    _fence(member, step)
    before = _copy(member)
    group.rename(old_id, event.new_member_id)
    _update_static_member(group, member, event)
    member.client_id, member.client_host = event.client_id, event.client_host
    step.renew_session(member)
    if group.state is not GroupState.STABLE:
        # What the leader assigns now would go to the old id: a new generation is needed.
        member.join_token = event.token
        rebalance.begin_if_possible(group, step)
    elif group.select_protocol() != group.protocol_name:
        member.join_token = event.token
        rebalance.begin(group, step)
    else:
        assert former_leader is not None
        group.replaced[member.member_id] = before
        _store_replacement(group, member, former_leader, event, step)


def _fence(member: Member, step: Step) -> None:
    if member.join_token is not None:
        step.reply(member.join_token, JoinReply(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
    if member.sync_token is not None:
        step.reply(member.sync_token, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    member.join_token = member.sync_token = None


def _copy(member: Member) -> Member:
    copy = Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
    )
    copy.assignment = member.assignment
    return copy


def _store_replacement(
    group: Group, member: Member, former_leader: str, event: Join, step: Step
) -> None:
    assignments = {m.member_id: m.assignment for m in group.members.values()}
    step.store(group, group.to_store(assignments, step.now_ms))
    is_leader = group.leader == member.member_id
    if event.supports_skipping_assignment:
        reply = rebalance.joined_reply(group, member, skip_assignment=is_leader)
    else:
        # An old client that learns that it leads would send assignments, which a stable group ignores: it gets
        # the former leader's id, which no member has.
        reply = JoinReply(
            ErrorCode.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            former_leader,
        )
    step.reply(event.token, reply)


def roll_back_replacement(group: Group, new_id: str, step: Step) -> None:
    """Undo a replacement after its record was refused: the former member id is valid again."""
    before = group.replaced.pop(new_id)
    if new_id not in group.members:
        return  # replaced once more, or gone
    member = group.rename(new_id, before.member_id)
    group.update_protocols(member, before.protocols)
    member.rebalance_timeout_ms = before.rebalance_timeout_ms
    member.session_timeout_ms = before.session_timeout_ms
    member.client_id, member.client_host = before.client_id, before.client_host
    step.renew_session(member)
