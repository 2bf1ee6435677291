"""Partitions near their readers: when racks count, and how an assignment gains by them (KIP-881). Pure.

A partition is *near* a member when one of its replicas is in the member's rack, and *astray* at a holder that it is
not near to. Racks never cost balance: `gather` starts with a balanced assignment and only exchanges.

    p is astray at X     p goes to Y, which it is near to; Y passes on q, near to Z; ... until somebody
                         * has another partition that is astray: X takes it, or
                         * passes on what is near to X, or
                         * may have one more, where all members want the same topics: X's, or that of a member
                           who has something astray for X.

That is the search for an augmenting path of a matching: each one brings at least one partition home. So readers
never have fewer partitions near than at the beginning, and where no path is left, the same question has the same
answer the next time: a sticky assignment stays. Kafka's greedy passes promise neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kavka.ids import TopicPartition
from kavka.values import frozen

PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of a partition's replicas, as far as they are known; empty where nobody asks for racks."""

NO_RACKS: PartitionRacks = {}


def racks_matter(wanted: Collection[str], places: Collection[frozenset[str]]) -> bool:
    """Tell whether racks count between members in racks `wanted` and partitions in `places`.

    They do not where no partition is near to anybody, or all are in the same racks; then Kafka assigns without them.
    """
    everywhere: frozenset[str] = frozenset().union(*places)
    return not everywhere.isdisjoint(wanted) and any(racks != everywhere for racks in places)


@frozen
class Reader:
    """A member: its rack, and the topics of which it may hold a partition without a loss of balance."""

    member_id: str
    rack: str | None
    topics: frozenset[str]


def gather(
    assigned: Mapping[str, Sequence[TopicPartition]],
    readers: Sequence[Reader],
    racks: PartitionRacks,
    *,
    kept: Collection[TopicPartition],
    are_alike: bool,
) -> dict[str, list[TopicPartition]]:
    """Exchange partitions of a balanced assignment until no exchange makes more of them near to their holders.

    What has just been given to somebody goes before what members own already (`kept`), which would have to be taken
    away first: a cooperative group would go round in circles.

    Where all members want the same topics (`are_alike`), who has one partition more may change; else all keep
    their numbers. Where all have equally many, the result is the best that there is.
    """
    gathering = _Gathering(assigned, readers, racks, kept, are_alike)
    while gathering.bring_home():
        pass
    return gathering.held


class _Gathering:
    """One run of `gather`. Invariant: the sorted numbers of partitions that members hold never change."""

    def __init__(
        self,
        assigned: Mapping[str, Sequence[TopicPartition]],
        readers: Sequence[Reader],
        racks: PartitionRacks,
        kept: Collection[TopicPartition],
        are_alike: bool,
    ) -> None:
        self._kept = kept
        # Invariant: what is kept comes first, then the rest in the order in which it came.
        self.held = {
            member_id: sorted(got, key=lambda at: at not in kept)
            for member_id, got in assigned.items()
        }
        self._readers = {reader.member_id: reader for reader in readers}
        self._are_alike = are_alike
        self._holder = {at: member_id for member_id, got in self.held.items() for at in got}
        self._near: dict[str, list[str]] = {}
        for reader in sorted(readers, key=lambda reader: reader.member_id):
            if reader.rack:
                self._near.setdefault(reader.rack, []).append(reader.member_id)
        self._racks = {at: sorted(self._near.keys() & racks.get(at, ())) for at in self._holder}
        # Invariant: what is astray at each holder, in the order in which it came.
        self._astray: dict[str, dict[TopicPartition, None]] = {m: {} for m in self.held}
        for at, holder in self._holder.items():
            if not self._is_near(holder, at):
                self._astray[holder][at] = None

    def bring_home(self) -> bool:
        """Look once for a better place of every partition that is astray; return whether there was one."""
        hopeless = set()
        has_moved = False
        astray = [at for of_member in self._astray.values() for at in of_member]
        for at in sorted(astray, key=lambda at: at in self._kept):
            holder = self._holder[at]
            if at not in self._astray[holder]:
                continue
            kind = (holder, *self._racks[at], None if self._are_alike else at.topic)
            moves = None if kind in hopeless else self._search(at)
            if moves is None:
                hopeless.add(kind)
            else:
                has_moved = True
                self._carry_out(moves)
        return has_moved

    def _search(self, astray: TopicPartition) -> dict[TopicPartition, str] | None:
        """Return who takes which partition so that `astray` comes home, or None."""
        giver = self._holder[astray]
        spare = self._spare(giver) if self._are_alike else None
        entering: dict[str, TopicPartition] = {}
        seen: set[tuple[str, str | None]] = set()
        queue = deque(self._ways([astray], seen))
        while queue:
            rack, at = queue.popleft()
            for taker in self._near[rack]:
                if taker in entering or at.topic not in self._readers[taker].topics:
                    continue
                entering[taker] = at
                more = len(self.held[giver]) - len(self.held[taker])
                if taker == giver or (self._are_alike and more == 1):
                    return self._path(entering, taker, astray)
                back = self._for_giver(taker, giver) or (spare if more == 0 else None)
                if back is not None:
                    return {**self._path(entering, taker, astray), back: giver}
                queue += self._ways(reversed(self.held[taker]), seen)
        return None

    def _ways(
        self, passed: Iterable[TopicPartition], seen: set[tuple[str, str | None]]
    ) -> Iterator[tuple[str, TopicPartition]]:
        """Yield the racks where partitions would be near, each once in a search (and topic, where that matters)."""
        for at in passed:
            for rack in self._racks[at]:
                way = (rack, None if self._are_alike else at.topic)
                if way not in seen:
                    seen.add(way)
                    yield rack, at

    def _for_giver(self, holder: str, giver: str) -> TopicPartition | None:
        """Return what is astray at `holder` and may be `giver`'s: near to it, else the latest that came."""
        topics = self._readers[giver].topics
        astray = [at for at in reversed(self._astray[holder]) if at.topic in topics]
        return next(
            (at for at in astray if self._is_near(giver, at)), astray[0] if astray else None
        )

    def _spare(self, giver: str) -> TopicPartition | None:
        """Return what is astray at a member that has one more than `giver`, so that an equal of it may get one more."""
        more = len(self.held[giver]) + 1
        holders = (m for m, astray in self._astray.items() if astray and len(self.held[m]) == more)
        return next((self._for_giver(holder, giver) for holder in holders), None)

    def _path(
        self, entering: Mapping[str, TopicPartition], last: str, first: TopicPartition
    ) -> dict[TopicPartition, str]:
        moves = {}
        taker = last
        while True:
            at = entering[taker]
            moves[at] = taker
            if at == first:
                return moves
            taker = self._holder[at]

    def _carry_out(self, moves: Mapping[TopicPartition, str]) -> None:
        for at, taker in moves.items():
            holder = self._holder[at]
            self.held[holder].remove(at)
            self._astray[holder].pop(at, None)
            self.held[taker].append(at)
            self._holder[at] = taker
            if not self._is_near(taker, at):
                self._astray[taker][at] = None

    def _is_near(self, member_id: str, at: TopicPartition) -> bool:
        return self._readers[member_id].rack in self._racks[at]
