"""Group descriptions for DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Collection

from kavka.core.group.events import DescribedGroup, DescribedMember, ListedGroup
from kavka.core.group.group import Group, GroupState, Member
from kavka.errors import ErrorCode

CLASSIC = "classic"


def describe(group_id: str, group: Group | None) -> DescribedGroup:
    """Describe one group; an unknown one is Dead. Metadata and assignments show only while it is stable."""
    if group is None:
        return DescribedGroup(ErrorCode.NONE, group_id, GroupState.DEAD.value)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        ErrorCode.NONE,
        group_id,
        group.state.value,
        group.protocol_type or "",
        (group.protocol_name or "") if is_stable else "",
        tuple(
            _member(m, group.protocol_name if is_stable else None) for m in group.members.values()
        ),
    )


def _member(member: Member, protocol_name: str | None) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol_name is None else member.metadata(protocol_name),
        b"" if protocol_name is None else member.assignment,
    )


def listed(group: Group) -> ListedGroup:
    """Return a group's line in ListGroups."""
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)


def is_wanted(group: Group, states: Collection[str], types: Collection[str]) -> bool:
    """Return whether the filters let a group through; case does not count, an empty filter lets all through."""
    if types and CLASSIC not in {name.lower() for name in types}:
        return False
    return not states or group.state.value.lower() in {name.lower() for name in states}
