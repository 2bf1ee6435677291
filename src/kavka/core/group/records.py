"""Records in a shard's log: the last generation per group, the committed offset per group and partition.

Pure values; `kavka.wire.stored.offsets` has their bytes. A record with the value None is a tombstone. Commits inside a
transaction stand in transactional batches of their producer, and the end of the transaction is a control batch.
"""

from __future__ import annotations

from kavka.values import frozen


@frozen
class StoredMember:
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@frozen
class StoredGroup:
    """A generation of a group. No members: the group is empty since `state_timestamp_ms` (-1: not known)."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...] = ()


@frozen
class CommittedOffset:
    """A committed offset: the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int | None = None
    """Set by the retention time of OffsetCommit 2 to 4 only."""


@frozen
class GroupRecord:
    """A group's metadata, or its end."""

    group_id: str
    value: StoredGroup | None


@frozen
class OffsetRecord:
    """A commit, or its end."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


@frozen
class PendingOffsetRecord:
    """A commit inside a producer's transaction, or its end there: it counts once the transaction is committed."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None
    producer_id: int
    producer_epoch: int


@frozen
class TransactionEnd:
    """The marker of a producer's transaction, which holds for all groups of the shard."""

    producer_id: int
    committed: bool


Record = GroupRecord | OffsetRecord | PendingOffsetRecord | TransactionEnd
