"""Records of `__consumer_offsets`: groups and their committed offsets.

    key version 0, 1   an offset of (group, topic, partition)    value OffsetCommitValue, None once removed
    key version 2      the state of a group                      value GroupMetadataValue, None once removed
    other keys         records of newer kinds of groups          skipped by a reader

A key's version is its kind; a value's version is its form.
Apache Kafka 3.9 writes keys 1 and 2 and values 3; version 4 of both values (4.1) can be read.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, overload

from kavka.io import Buffer
from kavka.wire.schema import binary, field, i32, i64, message, string, struct, uuid
from kavka.wire.versioned import decode_versioned, encode_versioned, version_of

OFFSET_COMMIT_VALUE_VERSION = 3
"""The version written; 1 where an explicit `expire_timestamp` must be kept."""
GROUP_METADATA_VALUE_VERSION = 3


@message(versions="0-1")
class OffsetCommitKey:
    """The key of a committed offset; both versions look the same."""

    group: string = field()
    topic: string = field()
    partition: i32 = field()


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset."""

    offset: i64 = field()
    """The next record that the group wants to read."""
    leader_epoch: i32 = field("3+", default=-1, ignorable=True)
    """The leader epoch of the last record read; -1 is unknown."""
    metadata: string = field()
    """The committer's own words; empty where it sent none."""
    commit_timestamp: i64 = field()
    """Time at which the broker appended the commit, milliseconds since 1970."""
    expire_timestamp: i64 = field("1", default=-1, ignorable=True)
    """Time at which the offset expires, milliseconds since 1970; -1 uses offsets.retention.minutes."""
    topic_id: uuid = field("4+", tag=0, ignorable=True)
    """The id of the offset's topic, so that a recreated topic of the same name does not inherit the offset."""


@message(versions="2")
class GroupMetadataKey:
    """The key of a group's state."""

    group: string = field()


@struct
class GroupMetadataMember:
    """A member of a group as it is remembered across coordinators."""

    member_id: string = field()
    group_instance_id: string | None = field("3+", nullable="3+", default=None, ignorable=True)
    """The name of a static member (KIP-345); None for a dynamic one."""
    client_id: string = field()
    client_host: string = field()
    """Address that it joined from, as Kafka writes it: after a slash."""
    rebalance_timeout: i32 = field("1+", ignorable=True)
    """Milliseconds for which a rebalance waits for it."""
    session_timeout: i32 = field()
    """Milliseconds without a heartbeat after which it is removed."""
    subscription: binary = field()
    """The member's metadata for the chosen protocol: for consumers a `Subscription` (`wire.consumer_protocol`)."""
    assignment: binary = field()
    """The member's assignment from the group leader: for consumers an `Assignment`."""


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """The state of a group after a rebalance, or empty."""

    protocol_type: string = field()
    """`consumer` for consumers, empty for a group that only keeps offsets."""
    generation: i32 = field()
    protocol: string | None = field(nullable="0+", default=None)
    """The assignor that the members agreed on; None in an empty group."""
    leader: string | None = field(nullable="0+", default=None)
    """The member that assigns; None in an empty group."""
    current_state_timestamp: i64 = field("2+", default=-1, ignorable=True)
    """Time of the last state change, milliseconds since 1970: offsets of an empty group expire from here."""
    members: list[GroupMetadataMember] = field()


class UnknownKey(NamedTuple):
    """The key of a record that a reader skips."""

    version: int


StoredKey: TypeAlias = OffsetCommitKey | GroupMetadataKey
StoredValue: TypeAlias = OffsetCommitValue | GroupMetadataValue


def encode_key(key: StoredKey) -> bytes:
    """Return the key of a record as Apache Kafka 3.9 writes it."""
    return encode_versioned(key, 1 if isinstance(key, OffsetCommitKey) else 2)


def encode_value(value: StoredValue) -> bytes:
    """Return the value of a record as Apache Kafka 3.9 writes it; an explicit expiry needs version 1."""
    if isinstance(value, GroupMetadataValue):
        return encode_versioned(value, GROUP_METADATA_VALUE_VERSION)
    return encode_versioned(
        value, 1 if value.expire_timestamp != -1 else OFFSET_COMMIT_VALUE_VERSION
    )


def decode_key(buffer: Buffer) -> StoredKey | UnknownKey:
    """Return the key of a record. Raise CorruptFrame when it claims to be of a known kind and is not."""
    version = version_of("record key", buffer)
    if version in (0, 1):
        return decode_versioned(OffsetCommitKey, buffer)
    if version == 2:
        return decode_versioned(GroupMetadataKey, buffer)
    return UnknownKey(version)


@overload
def decode_value(key: OffsetCommitKey, buffer: Buffer) -> OffsetCommitValue: ...
@overload
def decode_value(key: GroupMetadataKey, buffer: Buffer) -> GroupMetadataValue: ...
def decode_value(key: StoredKey, buffer: Buffer) -> StoredValue:
    """Return the value that stands with `key`; a removal (None) is the caller's. Raise CorruptFrame."""
    if isinstance(key, OffsetCommitKey):
        return decode_versioned(OffsetCommitValue, buffer)
    return decode_versioned(GroupMetadataValue, buffer)
