"""Loading of groups from their records: the last stored generation continues as if the coordinator had only paused.

Records come in the order of the log through the shard's `apply`; compaction may have removed any that a later one
of the same key replaces. When all are read, `load_group` makes each group live.
"""

from __future__ import annotations

from kavka.core.group import rebalance
from kavka.core.group.group import Group, GroupState, Member
from kavka.core.group.records import StoredGroup, StoredMember
from kavka.core.group.step import Step


def load_group(group: Group, step: Step) -> None:
    """Make a loaded group live: stable when it has members, each with a fresh session, else empty."""
    stored = group.stored
    if stored is None:
        return
    group.generation_id = stored.generation_id
    # Kafka stores a group that only holds offsets with an empty protocol type in some releases.
    group.protocol_type = stored.protocol_type or None
    group.protocol_name = stored.protocol_name if stored.members else None
    group.state_timestamp_ms = stored.state_timestamp_ms
    for member in stored.members:
        _load_member(group, stored, member, step)
    if stored.members:
        if stored.leader in group.members:
            group.leader = stored.leader
        group.state = GroupState.STABLE
    group.learn_subscriptions()
    if len(group.members) > step.settings.max_size:
        rebalance.begin(group, step)


def _load_member(group: Group, stored: StoredGroup, part: StoredMember, step: Step) -> None:
    member = Member(
        part.member_id,
        part.group_instance_id,
        part.client_id,
        part.client_host,
        # Version 0 of the record has no rebalance timeout.
        part.rebalance_timeout_ms if part.rebalance_timeout_ms >= 0 else part.session_timeout_ms,
        part.session_timeout_ms,
        ((stored.protocol_name or "", part.subscription),),
    )
    member.assignment = part.assignment
    group.add(member)
    step.renew_session(member)
