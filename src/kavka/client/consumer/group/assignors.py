"""Partition assignors: the four of the Java client. Pure.

The leader of a group runs one of them over all members' subscriptions. Names, order and user data are the Java
client's, so that a group may mix clients. Members are ranked by `group.instance.id` before member id, which keeps
static members' partitions in place over restarts. All but `roundrobin` check racks (KIP-881).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol, runtime_checkable

from kavka.client.consumer.group.racks import NO_RACKS, PartitionRacks, racks_matter
from kavka.client.consumer.group.sticky import Claim, assign_sticky
from kavka.core.topic_partitions import partitions_by_topic
from kavka.ids import TopicPartition
from kavka.values import frozen
from kavka.wire.codec import CorruptFrame, decode, encode_into
from kavka.wire.consumer_protocol import ConsumerProtocolTopic, Subscription
from kavka.wire.schema import field, i32, message

Assignments = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; every member is included."""


@frozen
class Member:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    subscription: Subscription

    @property
    def rank(self) -> tuple[bool, str]:
        """The order of members: static ones first, by instance id."""
        if self.instance_id is not None:
            return (False, self.instance_id)
        return (True, self.member_id)

    @property
    def rack(self) -> str | None:
        """Its `client.rack`; None where that is empty or the subscription is older than version 3."""
        return self.subscription.rack_id or None


class Assignor(Protocol):
    """One way to share partitions."""

    name: str
    is_cooperative: bool
    """True if members keep their partitions while they rejoin (KIP-429)."""

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return what this member sends to the leader beside its topics."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share topics, given with their partition counts, among members."""
        ...


@runtime_checkable
class RackAware(Protocol):
    """An assignor that also checks racks; one of the user's own need not."""

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share without racks."""
        return self.assign_with_racks(partitions, members, NO_RACKS)

    def assign_with_racks(
        self, partitions: Mapping[str, int], members: Sequence[Member], racks: PartitionRacks
    ) -> Assignments:
        """Share as `assign`, as balanced, with more partitions in the racks of their readers."""
        ...


class RangeAssignor(RackAware):
    """Topic by topic, consecutive partitions to consecutive members; the first ones get one more.

    Topics with equal counts and equal members are one: a member gets the same numbers of all of them. Where racks
    count (KIP-881), members in their order first get what is in their rack, up to their share, then what is left. A
    number is in a rack when that holds in all topics of its kind, so racks never part topics that are read together.
    """

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Return nothing."""

    def assign_with_racks(
        self, partitions: Mapping[str, int], members: Sequence[Member], racks: PartitionRacks
    ) -> Assignments:
        """Return ranges of each topic; of topics with equal counts a member gets the same partition numbers."""
        assigned: Assignments = {member.member_id: [] for member in members}
        for group in _group_co_partitioned(partitions, members):
            for taker, numbers in zip(group.members, _ranges(group, racks), strict=True):
                assigned[taker.member_id] += (
                    TopicPartition(topic, number) for topic in group.topics for number in numbers
                )
        return {member_id: sorted(got) for member_id, got in assigned.items()}


@frozen
class _CoPartitionedTopics:
    """Topics with the same number of partitions and the same members, in order of rank."""

    topics: list[str]
    count: int
    members: tuple[Member, ...]


def _group_co_partitioned(
    partitions: Mapping[str, int], members: Sequence[Member]
) -> list[_CoPartitionedTopics]:
    ranked = sorted(members, key=lambda member: member.rank)
    subscribed = [frozenset(member.subscription.topics) for member in ranked]
    groups: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for topic in sorted(partitions):
        takers = tuple(i for i, topics in enumerate(subscribed) if topic in topics)
        if takers:
            groups.setdefault((partitions[topic], takers), []).append(topic)
    return [
        _CoPartitionedTopics(topics, count, tuple(ranked[i] for i in takers))
        for (count, takers), topics in groups.items()
    ]


def _ranges(group: _CoPartitionedTopics, racks: PartitionRacks) -> list[list[int]]:
    """Return the numbers of each taker: those in its rack first, then what is left."""
    each, more = divmod(group.count, len(group.members))
    shares: list[list[int]] = [[] for _ in group.members]
    free = dict.fromkeys(range(group.count))
    everything = [None] * group.count
    common = _common_racks(group, racks)
    for places in (everything,) if common is None else (common, everything):
        for taker, share in zip(group.members, shares, strict=True):
            room = max(each + (more > 0) - len(share), 0)
            taken = list(islice((n for n in free if _is_rack_match(taker, places[n])), room))
            share.extend(taken)
            more -= bool(taken) and len(share) > each
            for number in taken:
                del free[number]
    return shares


def _is_rack_match(member: Member, racks: frozenset[str] | None) -> bool:
    """Return whether racks (None: any) hold the member's; a member without a rack is content with every one."""
    return racks is None or member.rack is None or member.rack in racks


def _common_racks(
    group: _CoPartitionedTopics, racks: PartitionRacks
) -> list[frozenset[str]] | None:
    """Return the racks that each number has in all topics, or None where racks count in none of the topics."""
    wanted = [member.rack for member in group.members if member.rack]
    if not wanted or not racks:
        return None
    places = [
        [racks.get(TopicPartition(topic, n), frozenset()) for n in range(group.count)]
        for topic in group.topics
    ]
    if not any(racks_matter(wanted, of_topic) for of_topic in places):
        return None
    return [frozenset.intersection(*of_number) for of_number in zip(*places, strict=True)]


class RoundRobinAssignor:
    """All partitions of all topics, in order, to one member after the other."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Return nothing."""

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Return the partitions in turns; a member that is not subscribed to a topic is passed over."""
        assigned: Assignments = {member.member_id: [] for member in members}
        members_in_order = deque(sorted(members, key=lambda member: member.rank))
        wanted = {topic for member in members for topic in member.subscription.topics}
        for topic in sorted(wanted & partitions.keys()):
            for partition in range(partitions[topic]):
                while topic not in members_in_order[0].subscription.topics:
                    members_in_order.rotate(-1)
                assigned[members_in_order[0].member_id].append(TopicPartition(topic, partition))
                members_in_order.rotate(-1)
        return assigned


@message(versions="0-1")
class StickyUserData:
    """The sticky assignor's user data in subscriptions (KIP-54, KIP-341); version 1 has the generation."""

    previous_assignment: list[ConsumerProtocolTopic] = field()
    generation: i32 = field("1+", default=-1, ignorable=True)


class StickyAssignor(RackAware):
    """As balanced as possible, then as close to the former assignment as possible (KIP-54)."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the former assignment: an eager member has given it up by the time it joins."""
        if not owned:
            return None
        data = StickyUserData(previous_assignment=by_topic(owned), generation=generation)
        return bytes(encode_into(data, 1, bytearray(), []))

    def assign_with_racks(
        self, partitions: Mapping[str, int], members: Sequence[Member], racks: PartitionRacks
    ) -> Assignments:
        """Return a balanced assignment in which members keep as many partitions as possible."""
        claims = [_sticky_claim(member) for member in members]
        return assign_sticky(partitions, claims, racks)


class CooperativeStickyAssignor(RackAware):
    """Shares as `sticky`, in two steps: a partition that moves is first only taken away (KIP-429)."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the generation, for leaders that do not know newer subscriptions."""
        return struct.pack(">i", generation)

    def assign_with_racks(
        self, partitions: Mapping[str, int], members: Sequence[Member], racks: PartitionRacks
    ) -> Assignments:
        """Return the assignment of `sticky` without the partitions that another member still owns."""
        claims = [_cooperative_claim(member) for member in members]
        assigned = assign_sticky(partitions, claims, racks)
        holders = {
            topic_partition: claim.member_id for claim in claims for topic_partition in claim.owned
        }
        return {
            member_id: [
                topic_partition
                for topic_partition in got
                if holders.get(topic_partition, member_id) == member_id
            ]
            for member_id, got in assigned.items()
        }


def _sticky_claim(member: Member) -> Claim:
    data = member.subscription.user_data
    owned: list[TopicPartition] = []
    generation = -1
    if data:
        for version in (1, 0):
            try:
                user_data = decode(StickyUserData, version, data)
            except CorruptFrame:
                continue
            owned, generation = flatten(user_data.previous_assignment), user_data.generation
            break
    return Claim(member.member_id, member.subscription.topics, owned, generation, member.rack)


def _cooperative_claim(member: Member) -> Claim:
    subscription = member.subscription
    generation = subscription.generation_id
    data = subscription.user_data
    if generation < 0 and data is not None and len(data) >= 4:
        (generation,) = struct.unpack_from(">i", data)
    owned = flatten(subscription.owned_partitions)
    return Claim(member.member_id, subscription.topics, owned, generation, member.rack)


def by_topic(partitions: Sequence[TopicPartition]) -> list[ConsumerProtocolTopic]:
    """Return partitions grouped as they go over the wire, in order of topics."""
    topics = partitions_by_topic(sorted(partitions))
    return [ConsumerProtocolTopic(topic=t, partitions=p) for t, p in topics.items()]


def flatten(topics: Sequence[ConsumerProtocolTopic]) -> list[TopicPartition]:
    """Return the partitions of `by_topic`."""
    return [TopicPartition(t.topic, partition) for t in topics for partition in t.partitions]


ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}
"""By the name that travels in JoinGroup."""
