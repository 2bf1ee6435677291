"""A rebalance, from the request to rejoin to the responses that begin the next generation.

The first rebalance of an empty group waits `group.initial.rebalance.delay.ms` for more members, again as often as
one came meanwhile, but not longer than the rebalance timeout. Later ones end when all members have joined again and
no member id is pending, or at the rebalance timeout, which drops the dynamic members that have not come.
"""

from __future__ import annotations

from kavka.core.group.events import JoinMember, JoinReply, SyncReply
from kavka.core.group.group import Group, GroupState, Member
from kavka.core.group.step import Step
from kavka.errors import ErrorCode

_MAX_GENERATION = 2**31 - 1
_MIN_WAIT_MS = 1_000  # for static members that have not come


def begin_if_possible(group: Group, step: Step) -> None:
    """Begin a rebalance unless one is being prepared."""
    if group.can_rebalance:
        begin(group, step)


def begin(group: Group, step: Step) -> None:
    """Make all members rejoin."""
    if group.state is GroupState.COMPLETING_REBALANCE or group.has_late_syncs:
        refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, step)
    group.sync_deadline_ms = None
    group.pending_sync.clear()
    if group.state is GroupState.EMPTY:
        delay_ms = step.settings.initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.has_new_member = False
        group.join_deadline_ms = step.wake(step.now_ms + delay_ms)
    else:
        group.initial_delay_left_ms = None
        group.join_deadline_ms = step.wake(step.now_ms + group.rebalance_timeout_ms)
    group.move_to(GroupState.PREPARING_REBALANCE, step.now_ms)


def complete_if_all_joined(group: Group, step: Step) -> None:
    """End the join phase early when all members have joined; the first rebalance waits for its delay all the same."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    assert group.join_deadline_ms is not None
    is_delayed = group.initial_delay_left_ms is not None and step.now_ms < group.join_deadline_ms
    if group.has_all_joined and not is_delayed:
        complete(group, step)


def join_deadline_passed(group: Group, step: Step) -> None:
    """Extend the first delay when a member joined, else end the joining with the present members."""
    left_ms = group.initial_delay_left_ms
    if left_ms and group.has_new_member:
        delay_ms = min(step.settings.initial_rebalance_delay_ms, left_ms)
        group.initial_delay_left_ms = left_ms - delay_ms
        group.has_new_member = False
        group.join_deadline_ms = step.wake(step.now_ms + delay_ms)
        return
    complete(group, step)


def complete(group: Group, step: Step) -> None:
    """Drop the dynamic members that have not joined, and begin the next generation with the others."""
    for member in list(group.members.values()):
        if member.join_token is None and not member.is_static:
            group.remove(member.member_id)
    group.initial_delay_left_ms = None
    if group.members and not _elect_joined_leader(group):
        # Only static members are left and none has come: their sessions decide. A timeout of 0 must not be due at once
        # again and again.
        wait_ms = max(group.rebalance_timeout_ms, _MIN_WAIT_MS)
        group.join_deadline_ms = step.wake(step.now_ms + wait_ms)
        return
    group.join_deadline_ms = None
    group.generation_id = _next_generation(group.generation_id)
    if group.members:
        _begin_generation(group, step)
    else:
        _become_empty(group, step)


def _next_generation(generation_id: int) -> int:
    """Return the number of the next generation, which clients take for one: 31 bits, and not negative."""
    return generation_id + 1 if 0 <= generation_id < _MAX_GENERATION else 0


def _elect_joined_leader(group: Group) -> bool:
    assert group.leader is not None
    if group.members[group.leader].join_token is not None:
        return True
    joined = next((m.member_id for m in group.members.values() if m.join_token is not None), None)
    if joined is None:
        return False
    group.leader = joined
    return True


def _become_empty(group: Group, step: Step) -> None:
    group.protocol_name = None
    group.learn_subscriptions()
    group.move_to(GroupState.EMPTY, step.now_ms)
    step.store(group, group.to_store({}, step.now_ms))


def _begin_generation(group: Group, step: Step) -> None:
    group.protocol_name = group.select_protocol()
    group.learn_subscriptions()
    group.move_to(GroupState.COMPLETING_REBALANCE, step.now_ms)
    group.pending_sync = dict.fromkeys(group.members)
    group.sync_deadline_ms = step.wake(step.now_ms + group.rebalance_timeout_ms)
    for member in group.members.values():
        if member.join_token is not None:
            step.reply(member.join_token, joined_reply(group, member))
        member.join_token = None
        member.is_new = False
        step.renew_session(member)


def joined_reply(group: Group, member: Member, *, skip_assignment: bool = False) -> JoinReply:
    """Return the reply with the present generation; the leader's has the metadata of all members."""
    assert group.leader is not None
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        skip_assignment,
        members_for_leader(group) if member.member_id == group.leader else (),
    )


def members_for_leader(group: Group) -> tuple[JoinMember, ...]:
    """Return what the leader assigns by."""
    name = group.protocol_name
    return tuple(
        JoinMember(m.member_id, m.group_instance_id, m.metadata(name))
        for m in group.members.values()
    )


def refuse_syncs(group: Group, error: ErrorCode, step: Step) -> None:
    """Answer all waiting SyncGroups with an error, and drop assignments of the generation."""
    group.has_late_syncs = False
    for member in group.members.values():
        group.assign(member, b"")
        if member.sync_token is not None:
            step.reply(member.sync_token, SyncReply(error))
            member.sync_token = None
            step.renew_session(member)


def remove_member(group: Group, member_id: str, step: Step) -> None:
    """Remove a member that left, was removed by an administrator or timed out, and rebalance without it."""
    member = group.remove(member_id)
    if member.join_token is not None:
        step.reply(member.join_token, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID))
    if member.sync_token is not None:
        step.reply(member.sync_token, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
    begin_if_possible(group, step)
    complete_if_all_joined(group, step)


def remove_pending_member(group: Group, member_id: str, step: Step) -> None:
    """Forget a member id that was allocated and never came back."""
    group.forget_pending(member_id)
    complete_if_all_joined(group, step)


def sync_deadline_passed(group: Group, step: Step) -> None:
    """Drop the members that have joined but not synced within the rebalance timeout, and rebalance without them."""
    group.sync_deadline_ms = None
    for member_id in list(group.pending_sync):
        group.remove(member_id)
    begin(group, step)
    complete_if_all_joined(group, step)
