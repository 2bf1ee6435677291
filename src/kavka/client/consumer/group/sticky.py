"""The sticky assignment (KIP-54, KIP-341): balanced first, close to the former one second. Pure.

When all members want the same topics, quotas decide everything: with P partitions and M members each gets P/M
rounded down, and P mod M of them one more. Members keep what they own up to their quota; the rest goes in order
to those below it. That is the Java client's fast path, with the same results.

When they want different topics, partitions that few can take go first, always to the member with the least; then
partitions move, one by one, as long as a move makes two members more equal.

Racks come last (KIP-881): `racks.align_with_racks` exchanges partitions of that assignment as long as more of them
come into the racks of their readers, without a change of balance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from kavka.client.consumer.group.racks import (
    NO_RACKS,
    PartitionRacks,
    RackedMember,
    align_with_racks,
    racks_matter,
)
from kavka.ids import TopicPartition
from kavka.values import frozen


@frozen
class Claim:
    """A member's subscription and the partitions it owns, since `generation` (-1: unknown)."""

    member_id: str
    topics: Sequence[str]
    owned: Sequence[TopicPartition]
    generation: int
    rack: str | None = None


def assign_sticky(
    partitions: Mapping[str, int], claims: Sequence[Claim], racks: PartitionRacks = NO_RACKS
) -> dict[str, list[TopicPartition]]:
    """Share topics, given with their partition counts; every member is in the result.

    Racks count where they differ between any of the partitions that are shared, as in Kafka 3.9.
    """
    kept = _valid_ownership(partitions, claims)
    are_alike = len({frozenset(claim.topics) for claim in claims}) <= 1
    if are_alike:
        topics = sorted(set(claims[0].topics) & partitions.keys()) if claims else []
        assigned = _assign_alike(topics, partitions, kept)
    else:
        assigned = _assign_different(partitions, claims, kept)
    places = [
        racks.get(topic_partition, frozenset())
        for got in assigned.values()
        for topic_partition in got
    ]
    if not racks_matter([claim.rack for claim in claims if claim.rack], places):
        return assigned
    readers = _readers_alike(claims) if are_alike else _readers_different(claims, assigned)
    owned = {topic_partition for of_member in kept.values() for topic_partition in of_member}
    return align_with_racks(assigned, readers, racks, kept=owned, are_alike=are_alike)


def _readers_alike(claims: Sequence[Claim]) -> list[RackedMember]:
    return [RackedMember(claim.member_id, claim.rack, frozenset(claim.topics)) for claim in claims]


def _readers_different(
    claims: Sequence[Claim], assigned: Mapping[str, Sequence[TopicPartition]]
) -> list[RackedMember]:
    """Return the partitions that members may keep without `_balance` moving them: no eligible member has two less."""
    load = {claim.member_id: len(assigned[claim.member_id]) for claim in claims}
    least: dict[str, int] = {}
    for claim in claims:
        for topic in claim.topics:
            least[topic] = min(load[claim.member_id], least.get(topic, load[claim.member_id]))
    return [
        RackedMember(
            claim.member_id,
            claim.rack,
            frozenset(t for t in claim.topics if load[claim.member_id] <= least[t] + 1),
        )
        for claim in claims
    ]


def _valid_ownership(
    partitions: Mapping[str, int], claims: Sequence[Claim]
) -> dict[str, list[TopicPartition]]:
    """Return what members may keep: of several claims on a partition the newest wins, of equal ones none."""
    newest = max((claim.generation for claim in claims), default=-1)
    claimants: dict[TopicPartition, list[str]] = {}
    for claim in claims:
        if claim.generation < newest:
            continue
        for topic_partition in claim.owned:
            if (
                topic_partition.topic in claim.topics
                and 0 <= topic_partition.partition < partitions.get(topic_partition.topic, 0)
            ):
                claimants.setdefault(topic_partition, []).append(claim.member_id)
    kept: dict[str, list[TopicPartition]] = {claim.member_id: [] for claim in claims}
    for topic_partition, members in claimants.items():
        if len(members) == 1:
            kept[members[0]].append(topic_partition)
    return kept


def _assign_alike(
    topics: Sequence[str],
    partitions: Mapping[str, int],
    kept: Mapping[str, list[TopicPartition]],
) -> dict[str, list[TopicPartition]]:
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in kept}
    if not assigned:
        return assigned
    everything = [TopicPartition(t, p) for t in topics for p in range(partitions[t])]
    quota, above = divmod(len(everything), len(assigned))
    below, at_quota = [], []  # members that may get more: surely, and if some remain
    for member, partitions_of_member in kept.items():
        owned = sorted(partitions_of_member)
        if len(owned) < quota:
            assigned[member] = owned
            below.append(member)
        elif len(owned) > quota and above > 0:
            above -= 1
            assigned[member] = owned[: quota + 1]
        else:
            assigned[member] = owned[:quota]
            at_quota.append(member)
    taken = {topic_partition for owned in assigned.values() for topic_partition in owned}
    rest = deque(topic_partition for topic_partition in everything if topic_partition not in taken)
    below.sort()
    at_quota.sort()
    while below:
        for member in list(below):
            assigned[member].append(rest.popleft())
            if len(assigned[member]) == quota:
                below.remove(member)
                at_quota.append(member)
    for member in at_quota:
        if not rest:
            break
        assigned[member].append(rest.popleft())
    assert not rest, "the quotas add up to all partitions"
    return assigned


def _assign_different(
    partitions: Mapping[str, int],
    claims: Sequence[Claim],
    kept: Mapping[str, list[TopicPartition]],
) -> dict[str, list[TopicPartition]]:
    takers: dict[str, list[str]] = {}
    for claim in sorted(claims, key=lambda claim: claim.member_id):
        for topic in dict.fromkeys(claim.topics):
            if topic in partitions:
                takers.setdefault(topic, []).append(claim.member_id)
    owner = {topic_partition: member for member, owned in kept.items() for topic_partition in owned}
    load = {member: len(owned) for member, owned in kept.items()}
    everything = sorted(
        (TopicPartition(t, p) for t in takers for p in range(partitions[t])),
        key=lambda topic_partition: (len(takers[topic_partition.topic]), topic_partition),
    )
    for topic_partition in everything:
        if topic_partition not in owner:
            taker = min(takers[topic_partition.topic], key=lambda member: (load[member], member))
            owner[topic_partition] = taker
            load[taker] += 1
    _balance(everything, takers, owner, load)
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in kept}
    for topic_partition in sorted(owner):
        assigned[owner[topic_partition]].append(topic_partition)
    return assigned


def _balance(
    everything: Sequence[TopicPartition],
    takers: Mapping[str, list[str]],
    owner: dict[TopicPartition, str],
    load: dict[str, int],
) -> None:
    """Move partitions while that helps. Each move lowers the sum of squared loads, so this ends."""
    moved = True
    while moved:
        moved = False
        for topic_partition in everything:
            holder = owner[topic_partition]
            taker = min(takers[topic_partition.topic], key=lambda member: (load[member], member))
            if load[taker] + 1 < load[holder]:
                owner[topic_partition] = taker
                load[holder] -= 1
                load[taker] += 1
                moved = True
