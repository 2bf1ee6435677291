"""Events and replies of a group shard. Field names are those of Kafka's messages.

Each event carries the token of its request. A new member id `<client or instance id>-<uuid>` is made by the shell and
comes with every join; it is used when the member has none.
"""

from __future__ import annotations

from kavka.core.group.records import CommittedOffset
from kavka.core.machine import Token
from kavka.errors import ErrorCode
from kavka.values import frozen


@frozen
class Join:
    """JoinGroup. `requires_known_member_id` from version 4 on, `supports_skipping_assignment` from 9 on.

    For version 0 `rebalance_timeout_ms` is the session timeout.
    """

    token: Token
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    client_id: str
    client_host: str
    new_member_id: str
    requires_known_member_id: bool = True
    supports_skipping_assignment: bool = True


@frozen
class JoinMember:
    """A member, as the group leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@frozen
class JoinReply:
    """The reply to a join; `members` is for the leader only."""

    error_code: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinMember, ...] = ()


@frozen
class Sync:
    """SyncGroup. `protocol_type` and `protocol_name` are None below version 5. Only the leader brings assignments."""

    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@frozen
class SyncReply:
    """The reply to a sync."""

    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@frozen
class Heartbeat:
    """Heartbeat."""

    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@frozen
class HeartbeatReply:
    """The reply to a heartbeat."""

    error_code: ErrorCode


@frozen
class LeavingMember:
    """A leaving member: by member id, or by instance id alone (an administrator removes it)."""

    member_id: str
    group_instance_id: str | None = None


@frozen
class Leave:
    """LeaveGroup; versions below 3 name one member."""

    token: Token
    group_id: str
    members: tuple[LeavingMember, ...]


@frozen
class LeaveReply:
    """The reply to a leave. Below version 3 the one member's error is that of the whole reply."""

    error_code: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@frozen
class OffsetToCommit:
    """One partition of a commit. `commit_timestamp_ms` is version 1's; -1 is now."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1


@frozen
class CommitOffsets:
    """OffsetCommit. A consumer outside of group management has an empty member id and generation -1.

    `retention_time_ms` is of versions 2 to 4; -1 leaves it to the broker. `connection` numbers the connection that
    the request came from: a later one has a larger number.
    """

    token: Token
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_time_ms: int = -1
    connection: int = 0


@frozen
class CommitOffsetsInTransaction:
    """TxnOffsetCommit. Below version 3 the member id is empty and the generation -1, which checks nothing (KIP-447)."""

    token: Token
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]


@frozen
class CommitReply:
    """The reply to a commit, inside a transaction or not, in the order of the request."""

    partitions: tuple[tuple[str, int, ErrorCode], ...]


@frozen
class FetchOffsets:
    """OffsetFetch of one group. `partitions` None asks for all that the group has.

    `require_stable`: a partition with a commit that is not decided yet is UNSTABLE_OFFSET_COMMIT (KIP-447).
    """

    token: Token
    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    require_stable: bool = False


@frozen
class FetchOffsetsReply:
    """The reply for one group; a partition without commit has offset -1."""

    error_code: ErrorCode
    partitions: tuple[tuple[str, int, CommittedOffset, ErrorCode], ...] = ()


@frozen
class DeleteOffsets:
    """OffsetDelete."""

    token: Token
    group_id: str
    partitions: tuple[tuple[str, int], ...]


@frozen
class DeleteOffsetsReply:
    """The reply to OffsetDelete."""

    error_code: ErrorCode
    partitions: tuple[tuple[str, int, ErrorCode], ...] = ()


@frozen
class DeleteTopicsOffsets:
    """Topics were deleted: remove their committed offsets, group by group in `tick`. There is no reply."""

    topics: tuple[str, ...]


@frozen
class DeleteGroup:
    """One group of DeleteGroups."""

    token: Token
    group_id: str


@frozen
class DeleteGroupReply:
    """The reply for one group."""

    error_code: ErrorCode


@frozen
class DescribedMember:
    """A member as DescribeGroups shows it; metadata and assignment only when the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@frozen
class DescribedGroup:
    """A group as DescribeGroups shows it."""

    error_code: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()


@frozen
class ListedGroup:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


Request = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | CommitOffsetsInTransaction
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroup
)
Event = Request | DeleteTopicsOffsets
Reply = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | CommitReply
    | FetchOffsetsReply
    | DeleteOffsetsReply
    | DeleteGroupReply
)
