"""A group: its members, its generation and its state.

State                    means                                        leaves for
EMPTY                    no members; perhaps committed offsets        PREPARING_REBALANCE (a join), DEAD (deleted)
PREPARING_REBALANCE      members are called to join again             COMPLETING_REBALANCE (joined), EMPTY (all gone)
COMPLETING_REBALANCE     joined; waits for the leader's assignment    STABLE (it is stored), PREPARING_REBALANCE
STABLE                   each member has, or may fetch, its part     PREPARING_REBALANCE (join, leave, expiry)
DEAD                     its tombstones are being written             EMPTY (they were refused), or gone

Everything here but `stored`, `offsets` and `undecided` is soft: it is not in the log and is lost with the
coordinator; the next one loads the last stored generation.
"""

from __future__ import annotations

from enum import Enum

from kavka.core.group.records import CommittedOffset, StoredGroup, StoredMember
from kavka.core.group.subscription import subscribed_topics
from kavka.core.machine import Token
from kavka.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """The states, by the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE, GroupState.DEAD),
    GroupState.PREPARING_REBALANCE: (
        GroupState.EMPTY,
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
    ),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: (GroupState.EMPTY,),
}

_MEMBER_BYTES = 1000
"""Approximate memory of a member besides the data that it sends, in bytes."""
_STORED_MEMBER_BYTES = 500
"""Approximate memory of a member of a stored generation besides its strings and byte strings, in bytes."""


class Member:
    """One member, as long as the group counts with it."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "commits",
        "group_instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[tuple[str, bytes], ...],
    ) -> None:
        """Begin without assignment, waiting for nothing."""
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False  # has not had a reply to its first join
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session_deadline_ms = 0
        self.commits: dict[tuple[str, int], tuple[int, int]] = {}
        """The connection and the offset of its newest commit of each partition."""

    @property
    def is_static(self) -> bool:
        """Return whether it has a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Return whether its connection waits for a response, so that it cannot heartbeat; False for a new member."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return its subscription for the protocol; empty when it does not speak it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


def protocols_bytes(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Return what the protocols of a member take in memory, about."""
    return _MEMBER_BYTES + sum(len(name) + len(metadata) for name, metadata in protocols)


def _member_bytes(member: Member) -> int:
    # The id holds the client's or the instance's name, which is kept once more.
    return protocols_bytes(member.protocols) + 2 * len(member.member_id) + len(member.assignment)


def _generation_bytes(stored: StoredGroup | None) -> int:
    """Return what a generation of a group takes in memory, about."""
    if stored is None:
        return 0
    return sum(
        _STORED_MEMBER_BYTES + 2 * len(m.member_id) + len(m.subscription) + len(m.assignment)
        for m in stored.members
    )


class MembersMemory:
    """The approximate bytes that groups keep of their members: of one shard, or of all shards of a broker."""

    __slots__ = ("_of_broker", "bytes")

    def __init__(self, of_broker: MembersMemory | None = None) -> None:
        """Begin with nothing; what is added is added to `of_broker`, too."""
        self.bytes = 0
        self._of_broker = of_broker

    def add(self, count: int) -> None:
        """Count so many bytes more, or less."""
        self.bytes += count
        if self._of_broker is not None:
            self._of_broker.add(count)

    def clear(self) -> None:
        """Count nothing any more."""
        self.add(-self.bytes)

    def is_within(self, growth: int, max_bytes: int) -> bool:
        """Return whether all groups of the broker may take so many bytes more."""
        total = self if self._of_broker is None else self._of_broker
        return total.bytes + growth <= max_bytes


class Group:
    """A group. Methods change soft state only; the hard one belongs to the shard's `apply`."""

    def __init__(self, group_id: str, memory: MembersMemory | None = None) -> None:
        """Begin empty and never stored; what members take is counted in `memory`."""
        self.group_id = group_id
        self._memory = MembersMemory() if memory is None else memory
        # Hard state
        self.stored: StoredGroup | None = None
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}
        # Commits inside open transactions, by partition and producer id, the oldest first. None: something newer was
        # committed since, so that this one will never count; the partition is not stable all the same.
        self.undecided: dict[tuple[str, int], dict[int, CommittedOffset | None]] = {}
        # Soft state
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = -1
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        # Invariant: None exactly when there are no members; else one of them. In the order of joining.
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self._protocol_counts: dict[str, int] = {}  # protocol -> how many members speak it
        self.static_members: dict[str, str] = {}  # group.instance.id -> member id
        self.pending_members: dict[str, int] = {}  # allocated with MEMBER_ID_REQUIRED -> deadline
        self.pending_sync: dict[str, None] = {}  # joined this generation and has not synced
        self.storing_generation_id = -1  # its assignment is on its way to the log
        self._pending_stores: list[StoredGroup] = []  # generations on their way to the log
        self.pending_commits: dict[tuple[str, int], int] = {}  # on their way to the log
        # New id of a static member -> the replaced member, until stored.
        self.replaced: dict[str, Member] = {}
        self.subscribed: frozenset[str] | None = None  # None: unknown
        self.join_deadline_ms: int | None = None
        # Set while the first rebalance is being delayed.
        self.initial_delay_left_ms: int | None = None
        self.has_new_member = False  # joined during the present delay
        self.sync_deadline_ms: int | None = None
        self.scheduled_ms: int | None = None  # the shard checks the group not later than this
        self.has_late_syncs = False  # became stable while more than the known syncs wait

    # State

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state by the table."""
        assert self.state in _PREVIOUS[state], (self.group_id, self.state, state)
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Return whether a rebalance can begin in this state."""
        return self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Return whether all members have joined and none is pending."""
        return not self.pending_members and all(
            m.join_token is not None for m in self.members.values()
        )

    # Members

    @property
    def members_bytes(self) -> int:
        """Return what members, ids that were allocated and generations take: what is counted in the memory."""
        waited_for = sum(_MEMBER_BYTES + len(member_id) for member_id in self.pending_members)
        generations = sum(map(_generation_bytes, [self.stored, *self._pending_stores]))
        return sum(map(_member_bytes, self.members.values())) + waited_for + generations

    def has_memory(self, growth: int, max_bytes: int) -> bool:
        """Return whether members may bring so many bytes more; none more than before is none too many.

        Generations that are on their way to the log are more than before.
        """
        is_growing = growth > 0 or bool(self._pending_stores)
        return not is_growing or self._memory.is_within(growth, max_bytes)

    def add(self, member: Member) -> None:
        """Take in a member."""
        assert member.member_id not in self.members
        if not self.members:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.forget_pending(member.member_id)

    def await_member(self, member_id: str, deadline_ms: int) -> None:
        """Note an id that was allocated, with which its member must come by then."""
        self.pending_members[member_id] = deadline_ms
        self._memory.add(_MEMBER_BYTES + len(member_id))

    def forget_pending(self, member_id: str) -> None:
        """Wait for a member no longer, if it was waited for."""
        if self.pending_members.pop(member_id, None) is not None:
            self._memory.add(-_MEMBER_BYTES - len(member_id))

    def remove(self, member_id: str) -> Member:
        """Remove a member; the next in line becomes leader if it was."""
        member = self.members.pop(member_id)
        self._count_protocols(member, -1)
        self.pending_sync.pop(member_id, None)
        self.replaced.pop(member_id, None)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Replace the id of a static member by its new one."""
        member = self.members[old_id]
        self._memory.add(2 * (len(new_id) - len(old_id)))
        member.member_id = new_id
        self.members = {m.member_id: m for m in self.members.values()}
        self.pending_sync = {new_id if i == old_id else i: None for i in self.pending_sync}
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return why a request is refused, or NONE: the instance must be this member's, and the member the group's."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols

    def _count_protocols(self, member: Member, by: int) -> None:
        self._memory.add(by * _member_bytes(member))
        for name in dict(member.protocols):
            self._protocol_counts[name] = self._protocol_counts.get(name, 0) + by

    def update_protocols(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        """Note what the member speaks from now on."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def is_common(self, protocol_name: str) -> bool:
        """Return whether all members speak the protocol."""
        return self._protocol_counts.get(protocol_name, 0) == len(self.members)

    def speaks(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Return whether a member with these protocols fits the group."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self.is_common(name) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the common protocol that most members prefer; the earliest vote decides a tie."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if self.is_common(name))
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def learn_subscriptions(self) -> None:
        """Decode the topics that the members of a consumer group read from their subscriptions."""
        self.subscribed = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and (
            self.protocol_name or not self.members
        ):
            metadata = [m.metadata(self.protocol_name) for m in self.members.values()]
            self.subscribed = subscribed_topics(metadata)

    # Storing

    @property
    def pending_stores(self) -> int:
        """Return the number of generations on their way to the log."""
        return len(self._pending_stores)

    def growth_by(self, stored: StoredGroup) -> int:
        """Return how many bytes more the group takes once a generation is stored and its members have their parts."""
        assignments = sum(len(part.assignment) for part in stored.members)
        present = sum(len(member.assignment) for member in self.members.values())
        return _generation_bytes(stored) + assignments - _generation_bytes(self.stored) - present

    def store_begun(self, stored: StoredGroup) -> None:
        """Note that a generation is on its way to the log."""
        self._pending_stores.append(stored)
        self._memory.add(_generation_bytes(stored))

    def store_ended(self, stored: StoredGroup) -> None:
        """Note that a generation is in the log, or never will be."""
        for index, pending in enumerate(self._pending_stores):
            if pending is stored:
                del self._pending_stores[index]
                self._memory.add(-_generation_bytes(stored))
                return

    def apply(self, stored: StoredGroup | None) -> None:
        """Remember the last generation of the log; None when it was deleted."""
        if stored is not None:
            self.store_ended(stored)
        self._memory.add(_generation_bytes(stored) - _generation_bytes(self.stored))
        self.stored = stored

    def assign(self, member: Member, assignment: bytes) -> None:
        """Set a member's assignment."""
        self._memory.add(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def to_store(self, assignments: dict[str, bytes], now_ms: int) -> StoredGroup:
        """Return the present generation with these assignments, as it goes to the log."""
        assert self.protocol_type is not None
        return StoredGroup(
            self.protocol_type,
            self.generation_id,
            self.protocol_name,
            self.leader,
            now_ms if self.state_timestamp_ms < 0 else self.state_timestamp_ms,
            tuple(self._stored_member(m, assignments) for m in self.members.values()),
        )

    def _stored_member(self, member: Member, assignments: dict[str, bytes]) -> StoredMember:
        return StoredMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(self.protocol_name),
            assignments.get(member.member_id, b""),
        )

    def check(self) -> None:
        """Assert what must hold between two events."""
        members = self.members
        assert (self.leader is None) == (not members), self.group_id
        assert self.leader is None or self.leader in members, self.group_id
        assert {
            m.group_instance_id: i for i, m in members.items() if m.is_static
        } == self.static_members
        assert not set(self.pending_members) & set(members), self.group_id
        assert set(self.pending_sync) <= set(members), self.group_id
        preparing = self.state is GroupState.PREPARING_REBALANCE
        assert preparing == (self.join_deadline_ms is not None), (self.group_id, self.state)
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members, (self.group_id, self.state)
        if self.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert not self.pending_sync, (self.group_id, self.state)
            assert self.sync_deadline_ms is None, (self.group_id, self.state)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert members, (self.group_id, self.state)
            assert self.protocol_name is not None
        for member in members.values():
            assert member.join_token is None or preparing, (self.group_id, self.state)
            assert (
                member.sync_token is None
                or self.state is GroupState.COMPLETING_REBALANCE
                or self.has_late_syncs
            )
