"""A shard's records as the keys and values of `__consumer_offsets`, and back."""

from __future__ import annotations

from kavka.core.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    PendingOffsetRecord,
    Record,
    StoredGroup,
    StoredMember,
    TransactionEnd,
)
from kavka.io import Buffer
from kavka.wire.codec import CorruptFrame
from kavka.wire.stored.offsets import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

CONFIRMATION = encode_key(OffsetCommitKey(group="", topic="", partition=-1))
"""A key that no group has: its tombstone says nothing (decision 013)."""


def to_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """Return key and value as they go into the log; None is a tombstone. The end of a transaction has neither."""
    match record:
        case OffsetRecord() | PendingOffsetRecord():
            key = encode_key(
                OffsetCommitKey(
                    group=record.group_id, topic=record.topic, partition=record.partition
                )
            )
            return key, None if record.value is None else encode_value(_offset_value(record.value))
        case GroupRecord():
            key = encode_key(GroupMetadataKey(group=record.group_id))
            return key, None if record.value is None else encode_value(_group_value(record.value))
        case TransactionEnd():
            raise AssertionError("the end of a transaction is written as a control batch")


def from_bytes(key: Buffer, value: Buffer | None) -> GroupRecord | OffsetRecord | None:
    """Return the record; None for kinds that a classic coordinator skips.

    Raise CorruptFrame, also for a value that contradicts itself, which no coordinator has written.
    """
    decoded = decode_key(key)
    match decoded:
        case OffsetCommitKey():
            commit = None if value is None else _committed(decode_value(decoded, value))
            return OffsetRecord(decoded.group, decoded.topic, decoded.partition, commit)
        case GroupMetadataKey():
            return GroupRecord(
                decoded.group, None if value is None else _group(decode_value(decoded, value))
            )
        case _:
            return None


def _offset_value(value: CommittedOffset) -> OffsetCommitValue:
    expire_timestamp_ms = value.expire_timestamp_ms
    return OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=-1 if expire_timestamp_ms is None else expire_timestamp_ms,
    )


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if value.expire_timestamp < 0 else value.expire_timestamp,
    )


def _group_value(value: StoredGroup) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation_id,
        protocol=value.protocol_name,
        leader=value.leader,
        current_state_timestamp=value.state_timestamp_ms,
        members=[
            GroupMetadataMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout=m.rebalance_timeout_ms,
                session_timeout=m.session_timeout_ms,
                subscription=m.subscription,
                assignment=m.assignment,
            )
            for m in value.members
        ],
    )


def _group(value: GroupMetadataValue) -> StoredGroup:
    contradiction = _contradiction(value)
    if contradiction is not None:
        raise CorruptFrame("GroupMetadataValue", -1, 0, contradiction)
    members = tuple(
        StoredMember(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            m.rebalance_timeout,
            m.session_timeout,
            bytes(m.subscription),
            bytes(m.assignment),
        )
        for m in value.members
    )
    return StoredGroup(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        members,
    )


def _contradiction(value: GroupMetadataValue) -> str | None:
    """Return what a group cannot be made of; None when it can."""
    if not value.members:
        return None
    if not value.protocol_type or value.protocol is None:
        return "members without a protocol"
    if value.generation < 0:
        return f"members of generation {value.generation}"
    if len({member.member_id for member in value.members}) < len(value.members):
        return "two members have one id"
    instances = [
        member.group_instance_id for member in value.members if member.group_instance_id is not None
    ]
    if len(set(instances)) < len(instances):
        return "two members have one group.instance.id"
    return None
