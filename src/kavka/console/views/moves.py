"""Plans that move partitions to other brokers, and moves in progress. Pure."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kavka.client.admin.placement_plans import Assignment
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.topics import TopicDescription
from kavka.client.metadata import BrokerAddress
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.console.views.paging import Paging
from kavka.console.views.topics import Sizes, partition_size
from kavka.ids import BrokerId, TopicPartition


class SeededRandom:
    """Numbers that a seed determines: a plan that was looked at is the one that is carried out."""

    def __init__(self, seed: int) -> None:
        """Take the seed."""
        self._random = random.Random(seed)

    def random(self) -> float:
        """Return a number from 0 up to and without 1."""
        return self._random.random()

    def random_bytes(self, length: int) -> bytes:
        """Return bytes."""
        return self._random.randbytes(length)


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A partition that would have other brokers, preferred leader first."""

    topic: str
    partition: int
    current: list[int]
    proposed: list[int]
    adding: list[int]
    removing: list[int]
    copied_bytes: int | None
    """Bytes that brokers would copy; null where the size is not known."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker's replicas and preferred leaders of the topics, now and after the plan."""

    broker_id: int
    is_target: bool
    replicas_now: int
    replicas_after: int
    leaders_now: int
    leaders_after: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The plan of a move; nothing is moved by looking at it."""

    is_planned: bool
    topics: list[str]
    """Topics of the cluster, for the form."""
    brokers: list[int]
    partitions: int
    """Partitions of the topics that were named."""
    moves: int
    rows: list[PlannedMove]
    paging: Paging | None
    copied_bytes: int | None
    loads: list[BrokerLoad]
    plan_id: str
    """A digest of the plan, which the change has to name."""
    moving: list[str]
    """Partitions of the topics that already move."""


def plan_id(targets: Assignment) -> str:
    """Return a digest of the partitions that a plan moves, and where."""
    lines = [
        f"{key.topic}\n{key.partition}\n{list(map(int, to))}" for key, to in sorted(targets.items())
    ]
    return hashlib.sha256("\n\n".join(lines).encode()).hexdigest()[:20]


def changed_partitions(
    current: Assignment, proposed: Assignment
) -> dict[TopicPartition, list[int]]:
    """Return the partitions of a plan that would not stay as they are."""
    return {
        key: [int(broker) for broker in to]
        for key, to in sorted(proposed.items())
        if [int(broker) for broker in to] != [int(broker) for broker in current[key]]
    }


def planned_moves(
    current: Assignment,
    targets: Assignment,
    topics: Mapping[str, TopicDescription],
    sizes: Sizes,
) -> list[PlannedMove]:
    """Return the moves of a plan."""
    rows = []
    for key, to in targets.items():
        now, after = [int(b) for b in current[key]], [int(b) for b in to]
        adding = [broker for broker in after if broker not in now]
        part = topics[key.topic].partitions[key.partition]
        size = partition_size(key.topic, part, sizes)
        rows.append(
            PlannedMove(
                topic=key.topic,
                partition=key.partition,
                current=now,
                proposed=after,
                adding=adding,
                removing=[broker for broker in now if broker not in after],
                copied_bytes=None if size is None else size * len(adding),
            )
        )
    return rows


def total_bytes(sizes: Iterable[int | None]) -> int | None:
    """Return a sum, None where a part is not known."""
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


def broker_loads(
    current: Assignment,
    proposed: Assignment,
    brokers: Sequence[BrokerAddress],
    targets: Collection[int],
) -> list[BrokerLoad]:
    """Return what each broker holds of the topics, before and after."""
    ids = {int(b.broker_id) for b in brokers} | {int(b) for to in current.values() for b in to}
    return [
        BrokerLoad(
            broker_id=broker,
            is_target=broker in targets,
            replicas_now=sum(broker in to for to in current.values()),
            replicas_after=sum(broker in to for to in proposed.values()),
            leaders_now=sum(to[0] == broker for to in current.values() if to),
            leaders_after=sum(to[0] == broker for to in proposed.values() if to),
        )
        for broker in sorted(ids)
    ]


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that moves; bytes are null where a broker did not say."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copied_bytes: int | None
    """Bytes that the new replicas have."""
    total_bytes: int | None
    """Bytes that they will have, as large as the leader's log is now."""


@dataclass(frozen=True, slots=True)
class MoveList:
    """The moves in progress of the cluster."""

    rows: list[MoveRow]
    paging: Paging
    copied_bytes: int | None
    total_bytes: int | None
    share: float | None
    """Copied of total, from 0 to 1."""
    throttled: list[int]
    """Brokers whose replication has a throttle for moves."""
    throttle_note: Sentence
    """The reason why that is not known."""


def move_rows(
    moves: Mapping[TopicPartition, Reassignment],
    topics: Mapping[str, TopicDescription],
    sizes: Sizes,
) -> list[MoveRow]:
    """Return the moves in progress with how far they are."""
    rows = []
    for key, move in sorted(moves.items()):
        if not (move.adding or move.removing):
            continue
        topic = topics.get(key.topic)
        whole = None
        if topic is not None and key.partition < len(topic.partitions):
            whole = partition_size(key.topic, topic.partitions[key.partition], sizes)
        copied = None
        if whole is not None:
            copied = sum(min(sizes.get((key, BrokerId(b)), 0), whole) for b in move.adding)
        rows.append(
            MoveRow(
                topic=key.topic,
                partition=key.partition,
                replicas=list(move.replicas),
                adding=list(move.adding),
                removing=list(move.removing),
                copied_bytes=copied,
                total_bytes=None if whole is None else whole * len(move.adding),
            )
        )
    return rows


def share_of(copied: int | None, total: int | None) -> float | None:
    """Return how much was copied, None where it is not known; 1 where there is nothing to copy."""
    if copied is None or total is None:
        return None
    return 1.0 if total == 0 else round(copied / total, 4)


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """A partition whose leader an election would change, or could not."""

    topic: str
    partition: int
    leader: int | None
    candidate: int | None
    """The broker that would lead; null where it is the brokers' choice, or none can."""
    replicas: list[int]
    in_sync: list[int]
    is_possible: bool
    note: Sentence


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The partitions that an election is about; none is held by looking at it."""

    kind: str
    rows: list[ElectionRow]
    paging: Paging
    possible: int
    topics: list[str]


def election_rows(
    topics: Iterable[TopicDescription], kind: str, live: Collection[BrokerId]
) -> list[ElectionRow]:
    """Return partitions that are not led by their preferred replica; for `unclean`, those without a leader."""
    rows = []
    for topic in topics:
        for part in topic.partitions:
            up = [b for b in part.replicas if b in live and b not in part.offline_replicas]
            candidate: int | None
            if kind == "unclean":
                if part.leader >= 0:
                    continue
                possible, candidate = bool(up), int(up[0]) if len(up) == 1 else None
                note = (
                    say(
                        "a live replica of {brokers} would lead, and what only others have is lost",
                        brokers=", ".join(map(str, up)),
                    )
                    if up
                    else say("no replica is live: start one of its brokers")
                )
            else:
                candidate = int(part.replicas[0]) if part.replicas else None
                if candidate is None or part.leader == candidate:
                    continue
                possible = candidate in part.in_sync_replicas and candidate in up
                note = (
                    NOTHING
                    if possible
                    else say("broker {candidate} is not in sync", candidate=candidate)
                )
            rows.append(
                ElectionRow(
                    topic=topic.name,
                    partition=part.partition,
                    leader=int(part.leader) if part.leader >= 0 else None,
                    candidate=candidate,
                    replicas=[int(b) for b in part.replicas],
                    in_sync=[int(b) for b in part.in_sync_replicas],
                    is_possible=possible,
                    note=note,
                )
            )
    return rows
