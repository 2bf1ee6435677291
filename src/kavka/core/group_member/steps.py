"""The steps of a group member, which its shell carries out one at a time, and their outcomes.

A dialogue is a generator: it yields a step, and is resumed with what the step gives, or with the exception that it
raised. Each class says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import frozen

NO_GENERATION = -1


class GroupMetadata(NamedTuple):
    """A member of a group in one generation, as a producer needs it to commit offsets in a transaction (KIP-447).

    Only the id for a consumer with manual assignment.
    """

    group_id: str
    generation_id: int = -1
    """-1 disables the coordinator's check: a member that was removed can then still commit."""
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, and a text of the user's."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class MemberSettings(NamedTuple):
    """Settings of a membership that its decisions depend on."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    is_cooperative: bool
    """True if partitions are kept while rejoining: all assignors must support it."""


class SubscribedPartitions(Protocol):
    """The part of a consumer's subscription that its membership reads and replaces."""

    @property
    def topics(self) -> list[str]:
        """The topics subscribed to."""
        ...

    @property
    def is_unmatched_pattern(self) -> bool:
        """True for a pattern that no known topic matches."""
        ...

    @property
    def uses_group(self) -> bool:
        """True if the group assigns the partitions."""
        ...

    @property
    def partitions(self) -> Mapping[TopicPartition, object]:
        """The partitions that the member holds."""
        ...

    def replace_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment."""
        ...


# Steps of a poll


@frozen
class CheckMetadata:
    """Compare the topics and partitions of the metadata with those of the subscription. Nothing is given."""


@frozen
class RefreshTopics:
    """Ask for metadata, so that a pattern may match. Nothing is given."""


@frozen
class CommitPositions:
    """Commit what was consumed, if that is configured, before partitions are revoked. Nothing is given."""


@frozen
class PartitionsRevoked:
    """Call the listener: partitions are taken away. Nothing is given."""

    partitions: list[TopicPartition]


@frozen
class PartitionsLost:
    """Call the listener: partitions belong to other members already. Nothing is given."""

    partitions: list[TopicPartition]


@frozen
class PartitionsAssigned:
    """Call the listener: partitions are new, of `count` in all. Nothing is given."""

    partitions: list[TopicPartition]
    generation: int
    count: int


@frozen
class StartJoin:
    """Run the dialogue `join` beside the poll. Nothing is given."""


@frozen
class AwaitJoin:
    """Wait for the end of `join`, and give its outcome; None when the poll's time is over."""


ListenerStep = PartitionsRevoked | PartitionsLost | PartitionsAssigned
PollStep = CheckMetadata | RefreshTopics | CommitPositions | ListenerStep | StartJoin | AwaitJoin

# Steps of a join


@frozen
class SendJoin:
    """Send JoinGroup, and give a JoinResult."""

    member_id: str
    topics: list[str]
    held: list[TopicPartition]
    owned: list[TopicPartition]
    """Partitions that an eager member held before it revoked them: assignors may give them back."""
    owned_generation: int
    reason: str


class JoinResult(NamedTuple):
    """The parts of a JoinGroup response that decide."""

    code: ErrorCode
    member_id: str = ""
    leader: str = ""
    generation: int = NO_GENERATION
    protocol_name: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """For the leader: member id, group instance id and subscription of each."""


Assignments = dict[str, list[TopicPartition]]


@frozen
class Assign:
    """Run the assignor that the group chose, as its leader, and give the Assignments."""

    joined: JoinResult


@frozen
class SendSync:
    """Send SyncGroup, and give a SyncResult."""

    generation: int
    member_id: str
    protocol_name: str
    assignments: Assignments


class SyncResult(NamedTuple):
    """The parts of a SyncGroup response that decide."""

    code: ErrorCode
    assigned: list[TopicPartition]


@frozen
class BackOff:
    """Log why the join is repeated, and sleep before repeat number `attempt`. Nothing is given."""

    attempt: int
    error: Exception
    forgets_coordinator: bool


JoinStep = SendJoin | Assign | SendSync | BackOff


@frozen
class Joined:
    """The outcome of a join: what the leader gave to this member."""

    generation: int
    assigned: list[TopicPartition]


# Steps of staying and leaving


@frozen
class Sleep:
    """Sleep, and give the time in milliseconds."""

    duration_ms: int


@frozen
class SendHeartbeat:
    """Send Heartbeat, and give a HeartbeatResult."""

    generation: int
    member_id: str


class HeartbeatResult(NamedTuple):
    """The outcome of a heartbeat: a code, or an error without one; and the time."""

    code: ErrorCode
    error: Exception | None
    now_ms: int


@frozen
class HeartbeatFailed:
    """Log it. Nothing is given."""

    error: Exception
    forgets_coordinator: bool
    has_session_timed_out: bool


@frozen
class PollTimedOut:
    """Log that the consumer leaves its group because it does not poll. Nothing is given."""


@frozen
class SendLeave:
    """Send LeaveGroup; whether it is answered does not matter. Nothing is given."""

    member_id: str
    reason: str


AliveStep = Sleep | SendHeartbeat | HeartbeatFailed | PollTimedOut | SendLeave
LeaveStep = PartitionsRevoked | PartitionsLost | SendLeave
Step = PollStep | JoinStep | AliveStep | LeaveStep
