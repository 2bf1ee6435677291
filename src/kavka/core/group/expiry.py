"""The end of offsets and groups: by `offsets.retention.minutes` (KIP-211), and by DeleteGroups.

An offset outlives its retention while the group uses it:

    group without protocol type (offsets only)     since its commit
    empty group                                    since the group became empty
    stable consumer group                          since its commit, if no member subscribes to the topic
    any other                                      never

An explicit expire timestamp (OffsetCommit 2 to 4) counts in place of the retention, under the same conditions. An
offset that an open transaction commits again is kept. An empty group with nothing left is deleted, be it that its
offsets have expired, or were deleted, or their topics.
"""

from __future__ import annotations

from kavka.core.group.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from kavka.core.group.offsets import append_tombstone, known_keys
from kavka.core.group.records import CommittedOffset, GroupRecord, OffsetRecord
from kavka.core.group.step import Step
from kavka.errors import ErrorCode


def expire(group: Group, step: Step) -> bool:
    """Append tombstones for expired offsets, and for an empty group; return whether it may be removed at once."""
    if group.state is GroupState.DEAD:
        return False
    expired = [key for key, value in group.offsets.items() if _is_expired(group, key, value, step)]
    is_used = group.pending_commits or group.pending_members or group.undecided
    has_expired = len(expired) == len(group.offsets)
    if group.state is GroupState.EMPTY and has_expired and not is_used:
        return delete_with_tombstones(group, step)
    for key in expired:
        append_tombstone(group, key, step)
    return False


def _is_expired(group: Group, key: tuple[str, int], value: CommittedOffset, step: Step) -> bool:
    if key in group.pending_commits or key in group.undecided:
        return False
    since_ms = value.commit_timestamp_ms
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since_ms = group.state_timestamp_ms if group.state_timestamp_ms >= 0 else since_ms
        elif not _has_left_topic(group, key[0]):
            return False
    if value.expire_timestamp_ms is not None:
        return step.now_ms >= value.expire_timestamp_ms
    return step.now_ms - since_ms >= step.settings.offsets_retention_ms


def _has_left_topic(group: Group, topic: str) -> bool:
    """Return whether no member of a stable consumer group subscribes to the topic; false when that is unknown."""
    if group.state is not GroupState.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    return group.subscribed is not None and topic not in group.subscribed


def delete(group: Group | None, step: Step) -> tuple[ErrorCode, bool]:
    """Delete a group without members; return the reply, and whether it may be forgotten at once."""
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND, False
    if group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP, False
    return ErrorCode.NONE, delete_with_tombstones(group, step)


def delete_if_unused(group: Group, step: Step) -> bool:
    """Delete an empty group whose last offset this step deletes; return whether it may be removed at once.

    As in Kafka's `GroupMetadataManager.cleanupGroupMetadata`, after OffsetDelete and where topics are deleted.
    """
    deleted = {
        (record.topic, record.partition)
        for record in step.records
        if isinstance(record, OffsetRecord) and record.group_id == group.group_id
    }
    is_used = group.pending_commits or group.pending_members or group.undecided
    if group.state is not GroupState.EMPTY or is_used or set(group.offsets) - deleted:
        return False
    group.move_to(GroupState.DEAD, step.now_ms)
    _append_group_tombstone(group, step)
    return not step.records


def delete_with_tombstones(group: Group, step: Step) -> bool:
    """Write the tombstones of all that the group has; return whether there was nothing to write."""
    for member_id in list(group.pending_members):
        group.forget_pending(member_id)
    group.move_to(GroupState.DEAD, step.now_ms)
    for topic_partition in known_keys(group):
        append_tombstone(group, topic_partition, step)
    _append_group_tombstone(group, step)
    return not step.records


def _append_group_tombstone(group: Group, step: Step) -> None:
    if group.stored is not None or group.pending_stores:
        step.records.append(GroupRecord(group.group_id, None))


def tombstones_refused(group: Group, step: Step) -> None:
    """Restore a group after its tombstones could not be written."""
    if group.state is GroupState.DEAD:
        group.move_to(GroupState.EMPTY, step.now_ms)
