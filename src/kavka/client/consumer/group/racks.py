"""Partitions near their readers: when racks count, and how an assignment gains by them (KIP-881). Pure.

A partition is *near* a member when one of its replicas is in the member's rack, and *misplaced* at a holder that it is
not near to. Racks never cost balance: `align_with_racks` starts with a balanced assignment and only exchanges.

    p is misplaced at X  p goes to Y, which it is near to; Y passes on q, near to Z; ... until a member
                         * has another partition that is misplaced: X takes it, or
                         * passes on what is near to X, or
                         * may have one more, where all members want the same topics: X's, or that of a member
                           that has something misplaced for X.

That is the search for an augmenting path of a matching: each one brings at least one partition near its reader. So
readers never have fewer partitions near than at the beginning, and where no path is left, the same question has the
same response the next time: a sticky assignment stays. Kafka's greedy passes promise neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kavka.ids import TopicPartition
from kavka.values import frozen

PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of a partition's replicas, as far as they are known; empty when racks are not used."""

NO_RACKS: PartitionRacks = {}


def racks_matter(wanted: Collection[str], partition_racks: Collection[frozenset[str]]) -> bool:
    """Return whether racks count between members in racks `wanted` and partitions in `partition_racks`.

    They do not where no partition is near to any member, or all are in the same racks; then Kafka assigns without them.
    """
    everywhere: frozenset[str] = frozenset().union(*partition_racks)
    return not everywhere.isdisjoint(wanted) and any(
        racks != everywhere for racks in partition_racks
    )


@frozen
class RackedMember:
    """A member: its rack, and the topics of which it may hold a partition without a loss of balance."""

    member_id: str
    rack: str | None
    topics: frozenset[str]


def align_with_racks(
    assigned: Mapping[str, Sequence[TopicPartition]],
    readers: Sequence[RackedMember],
    racks: PartitionRacks,
    *,
    kept: Collection[TopicPartition],
    are_alike: bool,
) -> dict[str, list[TopicPartition]]:
    """Exchange partitions of a balanced assignment until no exchange makes more of them near to their holders.

    What has just been given to a member goes before what members own already (`kept`), which would have to be taken
    away first: a cooperative group would go round in circles.

    Where all members want the same topics (`are_alike`), which of them have one partition more may change; else
    all keep their numbers. Where all have equally many, the result is the best that there is.
    """
    gathering = _RackAlignment(assigned, readers, racks, kept, are_alike)
    while gathering.run():
        pass
    return gathering.held


class _RackAlignment:
    """One run of `gather`. Invariant: the sorted numbers of partitions that members hold never change."""

    def __init__(
        self,
        assigned: Mapping[str, Sequence[TopicPartition]],
        readers: Sequence[RackedMember],
        racks: PartitionRacks,
        kept: Collection[TopicPartition],
        are_alike: bool,
    ) -> None:
        self._kept = kept
        # Invariant: what is kept comes first, then the rest in the order in which it came.
        self.held = {
            member_id: sorted(got, key=lambda topic_partition: topic_partition not in kept)
            for member_id, got in assigned.items()
        }
        self._readers = {reader.member_id: reader for reader in readers}
        self._are_alike = are_alike
        self._holder = {
            topic_partition: member_id
            for member_id, got in self.held.items()
            for topic_partition in got
        }
        self._readers_near: dict[str, list[str]] = {}
        for reader in sorted(readers, key=lambda reader: reader.member_id):
            if reader.rack:
                self._readers_near.setdefault(reader.rack, []).append(reader.member_id)
        self._racks = {
            topic_partition: sorted(self._readers_near.keys() & racks.get(topic_partition, ()))
            for topic_partition in self._holder
        }
        # Invariant: what is astray at each holder, in the order in which it came.
        self._misplaced: dict[str, dict[TopicPartition, None]] = {m: {} for m in self.held}
        for topic_partition, holder in self._holder.items():
            if not self._is_near(holder, topic_partition):
                self._misplaced[holder][topic_partition] = None

    def run(self) -> bool:
        """Search once for a better replica of every misplaced partition; return whether there was one."""
        unmovable = set()
        has_moved = False
        misplaced = [
            topic_partition
            for of_member in self._misplaced.values()
            for topic_partition in of_member
        ]
        for topic_partition in sorted(
            misplaced, key=lambda topic_partition: topic_partition in self._kept
        ):
            holder = self._holder[topic_partition]
            if topic_partition not in self._misplaced[holder]:
                continue
            kind = (
                holder,
                *self._racks[topic_partition],
                None if self._are_alike else topic_partition.topic,
            )
            moves = None if kind in unmovable else self._search(topic_partition)
            if moves is None:
                unmovable.add(kind)
            else:
                has_moved = True
                self._apply(moves)
        return has_moved

    def _search(self, misplaced: TopicPartition) -> dict[TopicPartition, str] | None:
        """Return the exchanges that bring `misplaced` near its reader, or None."""
        source = self._holder[misplaced]
        spare = self._replacement(source) if self._are_alike else None
        entering: dict[str, TopicPartition] = {}
        seen: set[tuple[str, str | None]] = set()
        queue = deque(self._paths([misplaced], seen))
        while queue:
            rack, topic_partition = queue.popleft()
            for taker in self._readers_near[rack]:
                if taker in entering or topic_partition.topic not in self._readers[taker].topics:
                    continue
                entering[taker] = topic_partition
                more = len(self.held[source]) - len(self.held[taker])
                if taker == source or (self._are_alike and more == 1):
                    return self._path(entering, taker, misplaced)
                back = self._paths_from(taker, source) or (spare if more == 0 else None)
                if back is not None:
                    return {**self._path(entering, taker, misplaced), back: source}
                queue += self._paths(reversed(self.held[taker]), seen)
        return None

    def _paths(
        self, passed: Iterable[TopicPartition], seen: set[tuple[str, str | None]]
    ) -> Iterator[tuple[str, TopicPartition]]:
        """Yield the racks where partitions would be near, each once in a search (and topic, where that matters)."""
        for topic_partition in passed:
            for rack in self._racks[topic_partition]:
                way = (rack, None if self._are_alike else topic_partition.topic)
                if way not in seen:
                    seen.add(way)
                    yield rack, topic_partition

    def _paths_from(self, holder: str, source: str) -> TopicPartition | None:
        """Return what is astray at `holder` and may be `giver`'s: near to it, else the latest that came."""
        topics = self._readers[source].topics
        misplaced = [
            topic_partition
            for topic_partition in reversed(self._misplaced[holder])
            if topic_partition.topic in topics
        ]
        return next(
            (
                topic_partition
                for topic_partition in misplaced
                if self._is_near(source, topic_partition)
            ),
            misplaced[0] if misplaced else None,
        )

    def _replacement(self, source: str) -> TopicPartition | None:
        """Return what is astray at a member that has one more than `giver`, so that an equal of it may get one more."""
        more = len(self.held[source]) + 1
        holders = (
            m for m, misplaced in self._misplaced.items() if misplaced and len(self.held[m]) == more
        )
        return next((self._paths_from(holder, source) for holder in holders), None)

    def _path(
        self, entering: Mapping[str, TopicPartition], last: str, first: TopicPartition
    ) -> dict[TopicPartition, str]:
        moves = {}
        taker = last
        while True:
            topic_partition = entering[taker]
            moves[topic_partition] = taker
            if topic_partition == first:
                return moves
            taker = self._holder[topic_partition]

    def _apply(self, moves: Mapping[TopicPartition, str]) -> None:
        for topic_partition, taker in moves.items():
            holder = self._holder[topic_partition]
            self.held[holder].remove(topic_partition)
            self._misplaced[holder].pop(topic_partition, None)
            self.held[taker].append(topic_partition)
            self._holder[topic_partition] = taker
            if not self._is_near(taker, topic_partition):
                self._misplaced[taker][topic_partition] = None

    def _is_near(self, member_id: str, topic_partition: TopicPartition) -> bool:
        return self._readers[member_id].rack in self._racks[topic_partition]
