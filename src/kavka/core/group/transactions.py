"""Commits inside a producer's transaction (KIP-98, KIP-447): in the log at once, visible when the marker is.

    CommitOffsetsInTransaction   PendingOffsetRecord      the offset is undecided, the partition unstable
    the marker, COMMIT           TransactionEnd(True)     it is the committed one, unless something newer was committed
    the marker, ABORT            TransactionEnd(False)    it never was
    a commit outside             OffsetRecord             older undecided ones will never count
    a tombstone                  OffsetRecord(None)       undecided ones of the partition are gone

What is newer is what comes later in the log, whenever it is decided.
"""

from __future__ import annotations

from kavka.core.group.events import CommitOffsetsInTransaction, CommitReply, OffsetToCommit
from kavka.core.group.group import Group, GroupState
from kavka.core.group.offsets import (
    check_metadata,
    commit_begun,
    commit_finished,
    refused_commit,
)
from kavka.core.group.records import CommittedOffset, PendingOffsetRecord
from kavka.core.group.step import Step
from kavka.errors import ErrorCode

_Key = tuple[str, int]


def commit(group: Group, event: CommitOffsetsInTransaction, step: Step) -> None:
    """Write the offsets of a request; partitions with too much metadata are refused one by one."""
    error = check_commit(group, event)
    if error is not ErrorCode.NONE:
        step.reply(event.token, refused_commit(event, error))
        return
    results: list[tuple[str, int, ErrorCode]] = []
    for offset in event.offsets:
        error = check_metadata(offset, step)
        if error is ErrorCode.NONE:
            _write(group, offset, event, step)
        results.append((offset.topic, offset.partition, error))
    step.reply(event.token, CommitReply(tuple(results)))


def check_commit(group: Group, event: CommitOffsetsInTransaction) -> ErrorCode:
    """Return why a commit is refused, or NONE. One without membership is accepted: old producers send none."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if event.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if event.generation_id < 0 and not event.member_id and event.group_instance_id is None:
        return ErrorCode.NONE
    error = group.check_member(event.member_id, event.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    is_present = event.generation_id == group.generation_id
    return ErrorCode.NONE if is_present else ErrorCode.ILLEGAL_GENERATION


def _write(
    group: Group, offset: OffsetToCommit, event: CommitOffsetsInTransaction, step: Step
) -> None:
    value = CommittedOffset(offset.offset, offset.leader_epoch, offset.metadata, step.now_ms)
    key = (offset.topic, offset.partition)
    commit_begun(group, key)
    step.records.append(
        PendingOffsetRecord(group.group_id, *key, value, event.producer_id, event.producer_epoch)
    )


# What `apply` does


def appended(group: Group, record: PendingOffsetRecord) -> None:
    """Remember a commit that its transaction's marker decides about; the producer's last one counts."""
    key = (record.topic, record.partition)
    commit_finished(group, key)
    rows = group.undecided.setdefault(key, {})
    rows.pop(record.producer_id, None)
    if record.value is not None:
        rows[record.producer_id] = record.value
    elif not rows:
        del group.undecided[key]


def superseded(group: Group, key: _Key) -> None:
    """Note that an offset was committed after all that are undecided now."""
    rows = group.undecided.get(key, {})
    for producer_id in rows:
        rows[producer_id] = None


def ended(group: Group, producer_id: int, *, committed: bool) -> None:
    """Decide about all that a producer has committed in the transaction that ends."""
    for key in [key for key, rows in group.undecided.items() if producer_id in rows]:
        rows = group.undecided[key]
        value = rows[producer_id]
        if committed and value is not None:
            group.offsets[key] = value
            for older in list(rows):
                if older == producer_id:
                    break
                rows[older] = None
        del rows[producer_id]
        if not rows:
            del group.undecided[key]
