"""Committed offsets: checks of commits, fetches, and deletion by an administrator.

A commit is visible once it is in the log, never before. Members commit with their generation; consumers outside of
group management commit with generation -1 and no member id, and only while the group has no members.
"""

from __future__ import annotations

from kavka.core.group.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    CommitReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchOffsetsReply,
    OffsetToCommit,
)
from kavka.core.group.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState, Member
from kavka.core.group.records import CommittedOffset, OffsetRecord
from kavka.core.group.step import Step
from kavka.errors import ErrorCode

_RETENTION_OF_BROKER = -1
_LAST_TIMESTAMP = 2**63 - 1
NOTHING_COMMITTED = CommittedOffset(-1)


def commit(group: Group, event: CommitOffsets, step: Step) -> None:
    """Write the offsets of a request; partitions with too much metadata are refused one by one."""
    error = check_commit(group, event)
    if error is not ErrorCode.NONE:
        step.reply(event.token, refused_commit(event, error))
        return
    member = group.members.get(event.member_id)
    if member is not None:
        step.renew_session(member)
    results: list[tuple[str, int, ErrorCode]] = []
    for offset in event.offsets:
        error = check_metadata(offset, step)
        if member is not None and _is_overtaken(member, offset, event.connection):
            error = ErrorCode.REQUEST_TIMED_OUT
        if error is ErrorCode.NONE:
            _write(group, offset, event.retention_time_ms, step)
        results.append((offset.topic, offset.partition, error))
    step.reply(event.token, CommitReply(tuple(results)))


def _is_overtaken(member: Member, offset: OffsetToCommit, connection: int) -> bool:
    """Return whether a commit came late, from a connection that its member has given up; else take note of it.

    The member has committed a later offset through a newer connection, which this one would set back.
    """
    key = (offset.topic, offset.partition)
    newest, committed = member.commits.get(key, (0, 0))
    if connection < newest:
        return offset.offset < committed
    member.commits[key] = (connection, offset.offset)
    return False


def check_commit(group: Group, event: CommitOffsets) -> ErrorCode:
    """Return why a commit is refused, or NONE."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if event.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # from an administrator, with any member id
    if event.generation_id >= 0 or event.member_id or event.group_instance_id is not None:
        error = group.check_member(event.member_id, event.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if event.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID


def check_metadata(offset: OffsetToCommit, step: Step) -> ErrorCode:
    """Judge what the committer adds in its own words."""
    is_long = _utf16_length(offset.metadata) > step.settings.offset_metadata_max_bytes
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_long else ErrorCode.NONE


def _utf16_length(text: str) -> int:
    """Return the length as Java counts it: `offset.metadata.max.bytes` does not count bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def refused_commit(
    event: CommitOffsets | CommitOffsetsInTransaction, error: ErrorCode
) -> CommitReply:
    """Return the reply that refuses every partition of a commit."""
    return CommitReply(tuple((o.topic, o.partition, error) for o in event.offsets))


def _write(group: Group, offset: OffsetToCommit, retention_time_ms: int, step: Step) -> None:
    now_ms = step.now_ms
    value = CommittedOffset(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        now_ms if offset.commit_timestamp_ms < 0 else offset.commit_timestamp_ms,
        None if retention_time_ms == _RETENTION_OF_BROKER else _expiry(now_ms, retention_time_ms),
    )
    key = (offset.topic, offset.partition)
    commit_begun(group, key)
    step.records.append(OffsetRecord(group.group_id, *key, value))


def _expiry(now_ms: int, retention_time_ms: int) -> int:
    """Return when a commit expires, in the 63 bits that the log has for it; what is in the past expires at once."""
    return min(max(now_ms + retention_time_ms, 0), _LAST_TIMESTAMP)


def commit_begun(group: Group, key: tuple[str, int]) -> None:
    """Note that a commit is on its way to the log."""
    group.pending_commits[key] = group.pending_commits.get(key, 0) + 1


def commit_finished(group: Group, key: tuple[str, int]) -> None:
    """Note that a commit is in the log, or never will be."""
    left = group.pending_commits.get(key, 0) - 1
    if left > 0:
        group.pending_commits[key] = left
    else:
        group.pending_commits.pop(key, None)


def fetch(group: Group | None, event: FetchOffsets) -> FetchOffsetsReply:
    """Return committed offsets; an unknown group has committed nothing."""
    is_known = group is not None and group.state is not GroupState.DEAD
    offsets = group.offsets if group is not None and is_known else {}
    keys = tuple(offsets) if event.partitions is None else event.partitions
    rows = [(*key, offsets.get(key, NOTHING_COMMITTED), ErrorCode.NONE) for key in keys]
    if event.require_stable and group is not None and is_known:
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        rows = [
            (t, p, NOTHING_COMMITTED, unstable) if _is_unstable(group, (t, p)) else (t, p, v, e)
            for t, p, v, e in rows
        ]
    return FetchOffsetsReply(ErrorCode.NONE, tuple(rows))


def _is_unstable(group: Group, key: tuple[str, int]) -> bool:
    """Return whether a commit of the partition is on its way to the log, or in an open transaction."""
    return key in group.pending_commits or key in group.undecided


def delete(group: Group | None, event: DeleteOffsets, step: Step) -> None:
    """Delete offsets, but not of topics that the group is reading (KIP-496)."""
    if group is None or group.state is GroupState.DEAD:
        step.reply(event.token, DeleteOffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        step.reply(event.token, DeleteOffsetsReply(ErrorCode.NON_EMPTY_GROUP))
        return
    results: list[tuple[str, int, ErrorCode]] = []
    for topic, partition in event.partitions:
        if group.members and (group.subscribed is None or topic in group.subscribed):
            results.append((topic, partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            append_tombstone(group, (topic, partition), step)
            results.append((topic, partition, ErrorCode.NONE))
    step.reply(event.token, DeleteOffsetsReply(ErrorCode.NONE, tuple(results)))


def append_tombstone(group: Group, key: tuple[str, int], step: Step) -> None:
    """Write the tombstone of an offset that is committed, or about to be, perhaps by an open transaction."""
    if key in group.offsets or _is_unstable(group, key):
        step.records.append(OffsetRecord(group.group_id, *key, None))


def known_keys(group: Group) -> list[tuple[str, int]]:
    """Return the partitions that have an offset, or are about to have one."""
    return list(dict.fromkeys([*group.offsets, *group.pending_commits, *group.undecided]))
