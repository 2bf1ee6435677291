"""Who reads which partition: the four assignors of the Java client. Pure.

The leader of a group runs one of them over all members' subscriptions. Names, order and user data are the Java
client's, so that a group may mix clients. Members are ranked by `group.instance.id` before member id, which keeps
static members' partitions in place over restarts.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from kavka.client.consumer.sticky import Claim, assign_sticky
from kavka.ids import TopicPartition
from kavka.values import frozen
from kavka.wire.codec import CorruptFrame, decode, encode_into
from kavka.wire.consumer_protocol import ConsumerProtocolTopic, Subscription
from kavka.wire.schema import field, i32, message

Assignments = dict[str, list[TopicPartition]]
"""What each member gets, by member id; every member is there."""


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


class Assignor(Protocol):
    """One way to share partitions."""

    name: str
    is_cooperative: bool
    """Whether members keep their partitions while they rejoin (KIP-429)."""

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return what this member tells the leader beside its topics."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share topics, given with their partition counts, among members."""
        ...


class RangeAssignor:
    """Topic by topic, consecutive partitions to consecutive members; the first ones get one more."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Tell nothing."""

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share; members meet the same numbers of all topics with equal counts."""
        assigned: Assignments = {member.member_id: [] for member in members}
        ranked = sorted(members, key=lambda member: member.rank)
        for topic in sorted(partitions):
            takers = [m.member_id for m in ranked if topic in m.subscription.topics]
            if not takers:
                continue
            each, more = divmod(partitions[topic], len(takers))
            first = 0
            for index, taker in enumerate(takers):
                count = each + (index < more)
                assigned[taker] += (TopicPartition(topic, first + i) for i in range(count))
                first += count
        return assigned


class RoundRobinAssignor:
    """All partitions of all topics, in order, to the members in turn."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Tell nothing."""

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share; a member that is not subscribed to a topic is passed over."""
        assigned: Assignments = {member.member_id: [] for member in members}
        turn = deque(sorted(members, key=lambda member: member.rank))
        wanted = {topic for member in members for topic in member.subscription.topics}
        for topic in sorted(wanted & partitions.keys()):
            for partition in range(partitions[topic]):
                while topic not in turn[0].subscription.topics:
                    turn.rotate(-1)
                assigned[turn[0].member_id].append(TopicPartition(topic, partition))
                turn.rotate(-1)
        return assigned


@message(versions="0-1")
class StickyUserData:
    """What the sticky assignor puts into subscriptions (KIP-54, KIP-341); version 1 has the generation."""

    previous_assignment: list[ConsumerProtocolTopic] = field()
    generation: i32 = field("1+", default=-1, ignorable=True)


class StickyAssignor:
    """As balanced as possible, then as close to the former assignment as possible (KIP-54)."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Tell the former assignment: an eager member has given it up by the time it joins."""
        if not owned:
            return None
        data = StickyUserData(previous_assignment=by_topic(owned), generation=generation)
        return bytes(encode_into(data, 1, bytearray(), []))

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share."""
        claims = [_sticky_claim(member) for member in members]
        return assign_sticky(partitions, claims)


class CooperativeStickyAssignor:
    """Shares as `sticky`, in two steps: a partition that moves is first only taken away (KIP-429)."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Tell the generation, for leaders that do not know newer subscriptions."""
        return struct.pack(">i", generation)

    def assign(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Assignments:
        """Share, but give nobody what another member still holds."""
        claims = [_cooperative_claim(member) for member in members]
        assigned = assign_sticky(partitions, claims)
        holders = {at: claim.member_id for claim in claims for at in claim.owned}
        return {
            member_id: [at for at in got if holders.get(at, member_id) == member_id]
            for member_id, got in assigned.items()
        }


def _sticky_claim(member: Member) -> Claim:
    data = member.subscription.user_data
    owned: list[TopicPartition] = []
    generation = -1
    if data:
        for version in (1, 0):
            try:
                told = decode(StickyUserData, version, data)
            except CorruptFrame:
                continue
            owned, generation = flatten(told.previous_assignment), told.generation
            break
    return Claim(member.member_id, member.subscription.topics, owned, generation)


def _cooperative_claim(member: Member) -> Claim:
    subscription = member.subscription
    generation = subscription.generation_id
    data = subscription.user_data
    if generation < 0 and data is not None and len(data) >= 4:
        (generation,) = struct.unpack_from(">i", data)
    owned = flatten(subscription.owned_partitions)
    return Claim(member.member_id, subscription.topics, owned, generation)


def by_topic(partitions: Sequence[TopicPartition]) -> list[ConsumerProtocolTopic]:
    """Return partitions grouped as they go over the wire, in order of topics."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return [ConsumerProtocolTopic(topic=t, partitions=p) for t, p in grouped.items()]


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
