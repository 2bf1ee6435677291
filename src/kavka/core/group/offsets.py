"""Committed offsets: who may commit, what fetches see, and deletion by hand.

A commit is visible once it is in the log, never before. Members commit with their generation; consumers outside of
group management commit with generation -1 and no member id, and only while the group has no members.
"""

from __future__ import annotations

from kavka.core.group.events import (
    CommitOffsets,
    CommitReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchOffsetsReply,
    OffsetToCommit,
)
from kavka.core.group.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from kavka.core.group.records import CommittedOffset, OffsetRecord
from kavka.core.group.step import Step
from kavka.errors import ErrorCode

NOTHING_COMMITTED = CommittedOffset(-1)


def commit(group: Group, event: CommitOffsets, step: Step) -> None:
    """Write the offsets of a request; partitions with too much metadata are refused one by one."""
    error = check_commit(group, event)
    if error is not ErrorCode.NONE:
        step.answer(event.token, refused_commit(event, error))
        return
    if event.member_id in group.members:
        step.renew_session(group.members[event.member_id])
    results: list[tuple[str, int, ErrorCode]] = []
    for offset in event.offsets:
        error = ErrorCode.NONE
        if len(offset.metadata.encode()) > step.settings.offset_metadata_max_bytes:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            _write(group, offset, event.retention_time_ms, step)
        results.append((offset.topic, offset.partition, error))
    step.answer(event.token, CommitReply(tuple(results)))


def check_commit(group: Group, event: CommitOffsets) -> ErrorCode:
    """Judge who commits."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if event.generation_id >= 0 or event.member_id or event.group_instance_id is not None:
        error = group.check_member(event.member_id, event.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if event.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.UNKNOWN_MEMBER_ID


def refused_commit(event: CommitOffsets, error: ErrorCode) -> CommitReply:
    """Return the answer that refuses every partition of a commit."""
    return CommitReply(tuple((o.topic, o.partition, error) for o in event.offsets))


def _write(group: Group, offset: OffsetToCommit, retention_time_ms: int, step: Step) -> None:
    now_ms = step.now_ms
    value = CommittedOffset(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        now_ms if offset.commit_timestamp_ms < 0 else offset.commit_timestamp_ms,
        None if retention_time_ms < 0 else now_ms + retention_time_ms,
    )
    key = (offset.topic, offset.partition)
    group.pending_commits[key] = group.pending_commits.get(key, 0) + 1
    step.records.append(OffsetRecord(group.group_id, *key, value))


def commit_finished(group: Group, key: tuple[str, int]) -> None:
    """Note that a commit is in the log, or never will be."""
    left = group.pending_commits.get(key, 0) - 1
    if left > 0:
        group.pending_commits[key] = left
    else:
        group.pending_commits.pop(key, None)


def fetch(group: Group | None, event: FetchOffsets) -> FetchOffsetsReply:
    """Return committed offsets; an unknown group has committed nothing."""
    offsets = group.offsets if group is not None and group.state is not GroupState.DEAD else {}
    keys = tuple(offsets) if event.partitions is None else event.partitions
    return FetchOffsetsReply(
        ErrorCode.NONE,
        tuple((*key, offsets.get(key, NOTHING_COMMITTED), ErrorCode.NONE) for key in keys),
    )


def delete(group: Group | None, event: DeleteOffsets, step: Step) -> None:
    """Delete offsets, but not of topics that the group is reading (KIP-496)."""
    if group is None or group.state is GroupState.DEAD:
        step.answer(event.token, DeleteOffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        step.answer(event.token, DeleteOffsetsReply(ErrorCode.NON_EMPTY_GROUP))
        return
    results: list[tuple[str, int, ErrorCode]] = []
    for topic, partition in event.partitions:
        if group.members and (group.subscribed is None or topic in group.subscribed):
            results.append((topic, partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            bury(group, (topic, partition), step)
            results.append((topic, partition, ErrorCode.NONE))
    step.answer(event.token, DeleteOffsetsReply(ErrorCode.NONE, tuple(results)))


def bury(group: Group, key: tuple[str, int], step: Step) -> None:
    """Write the tombstone of an offset that is committed, or about to be."""
    if key in group.offsets or key in group.pending_commits:
        step.records.append(OffsetRecord(group.group_id, *key, None))
