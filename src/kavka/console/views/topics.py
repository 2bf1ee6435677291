"""Topics and their partitions: a list, and one topic with leaders, replicas, in-sync sets, sizes and offsets. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kavka.client.admin.nodes import LogDir
from kavka.client.admin.topics import TopicDescription
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.client.metadata import PartitionMetadata
from kavka.console.formats import sparkline
from kavka.console.sampler import Rate
from kavka.console.sentences import Sentence, as_is
from kavka.console.views.brokers import Unanswered
from kavka.console.views.paging import Paging, searched
from kavka.ids import BrokerId, TopicId, TopicPartition, uuid_text

Sizes = Mapping[tuple[TopicPartition, BrokerId], int]
"""Bytes of replicas."""


@dataclass(frozen=True, slots=True)
class Health:
    """Counts of partitions that lack something."""

    partitions: int = 0
    under_replicated: int = 0
    """Partitions with a leader whose in-sync set lacks a replica."""
    offline: int = 0
    """Partitions without a leader."""

    @property
    def state(self) -> str:
        """Return ok, under-replicated or offline."""
        if self.offline:
            return "offline"
        return "under-replicated" if self.under_replicated else "ok"

    def plus(self, other: Health) -> Health:
        """Return the sum."""
        return Health(
            self.partitions + other.partitions,
            self.under_replicated + other.under_replicated,
            self.offline + other.offline,
        )


def partition_state(part: PartitionMetadata) -> str:
    """Return ok, under-replicated or offline."""
    if part.leader < 0:
        return "offline"
    return "ok" if len(part.in_sync_replicas) >= len(part.replicas) else "under-replicated"


def health_of(topic: TopicDescription) -> Health:
    """Return the health of a topic's partitions."""
    states = [partition_state(part) for part in topic.partitions]
    return Health(len(states), states.count("under-replicated"), states.count("offline"))


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    state: str
    size_bytes: int | None
    """Bytes of the leaders' logs; null where a broker did not say."""
    records_per_second: float | None
    sparkline: str
    """The path (SVG) of the rates of the last quarter of an hour, 120 wide and 24 high."""


@dataclass(frozen=True, slots=True)
class TopicList:
    """One page of the topics that match."""

    rows: list[TopicRow]
    paging: Paging
    total: int
    search: str
    sort: str
    internal: bool
    unanswered: list[Unanswered]
    """The brokers whose sizes are missing."""


def matching_topics(
    topics: Iterable[TopicDescription], search: str, *, internal: bool
) -> list[TopicDescription]:
    """Return the topics whose names have all words of a search, in any case."""
    has_words = searched(search)
    return [
        topic for topic in topics if (internal or not topic.is_internal) and has_words(topic.name)
    ]


def sorted_topics(
    topics: list[TopicDescription], sort: str, rates: Mapping[str, float]
) -> list[TopicDescription]:
    """Return topics by name, by partitions, by rate or by what they lack, the largest first."""
    by_name = sorted(topics, key=lambda topic: topic.name)
    if sort == "partitions":
        return sorted(by_name, key=lambda topic: -len(topic.partitions))
    if sort == "rate":
        return sorted(by_name, key=lambda topic: -rates.get(topic.name, -1.0))
    if sort == "state":
        return sorted(by_name, key=lambda topic: _urgency(health_of(topic)))
    return by_name


def _urgency(health: Health) -> tuple[int, int]:
    return -health.offline, -health.under_replicated


def topic_row(topic: TopicDescription, sizes: Sizes, rates: Sequence[Rate]) -> TopicRow:
    """Return the row of a topic."""
    health = health_of(topic)
    return TopicRow(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=health.partitions,
        replication_factor=max((len(p.replicas) for p in topic.partitions), default=0),
        under_replicated=health.under_replicated,
        offline=health.offline,
        state=health.state,
        size_bytes=topic_size(topic, sizes),
        records_per_second=rates[-1].per_second if rates else None,
        sparkline=sparkline([rate.per_second for rate in rates]),
    )


def replica_sizes(answers: Mapping[BrokerId, Mapping[str, LogDir] | Exception]) -> Sizes:
    """Return the bytes of each replica that a broker has reported; those that are being moved count where they are."""
    found: dict[tuple[TopicPartition, BrokerId], int] = {}
    for broker_id, answer in answers.items():
        if isinstance(answer, Exception):
            continue
        for log_dir in answer.values():
            for topic_partition, replica in log_dir.replicas.items():
                if not replica.is_future:
                    found[topic_partition, broker_id] = replica.size
    return found


def partition_size(topic: str, part: PartitionMetadata, sizes: Sizes) -> int | None:
    """Return the bytes of the leader's log, of the largest replica where there is no leader."""
    key = TopicPartition(topic, part.partition)
    if (key, part.leader) in sizes:
        return sizes[key, part.leader]
    return max((sizes[key, b] for b in part.replicas if (key, b) in sizes), default=None)


def topic_size(topic: TopicDescription, sizes: Sizes) -> int | None:
    """Return the bytes of all partitions, None where one is not known."""
    known = [partition_size(topic.name, part, sizes) for part in topic.partitions]
    return None if None in known else sum(size for size in known if size is not None)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica of a partition, in the order of preference."""

    broker_id: int
    is_leader: bool
    is_in_sync: bool
    is_live: bool
    """True if the broker is in the cluster at this moment."""
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition; offsets are null where the leader did not say."""

    partition: int
    leader: int | None
    leader_epoch: int
    state: str
    replicas: list[ReplicaView]
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None
    note: Sentence
    """The reason why offsets are missing."""


Ends = Mapping[TopicPartition, OffsetAndTimestamp | Exception]


def partition_view(
    topic: str,
    part: PartitionMetadata,
    live: Collection[BrokerId],
    sizes: Sizes,
    starts: Ends,
    ends: Ends,
) -> PartitionView:
    """Return a partition with its replicas."""
    key = TopicPartition(topic, part.partition)
    start, end = starts.get(key), ends.get(key)
    refused = next((e for e in (start, end) if isinstance(e, Exception)), None)
    return PartitionView(
        partition=part.partition,
        leader=part.leader if part.leader >= 0 else None,
        leader_epoch=part.leader_epoch,
        state=partition_state(part),
        replicas=[
            ReplicaView(
                broker_id=broker_id,
                is_leader=broker_id == part.leader,
                is_in_sync=broker_id in part.in_sync_replicas,
                is_live=broker_id in live and broker_id not in part.offline_replicas,
                size_bytes=sizes.get((key, broker_id)),
            )
            for broker_id in part.replicas
        ],
        start_offset=start.offset if isinstance(start, OffsetAndTimestamp) else None,
        end_offset=end.offset if isinstance(end, OffsetAndTimestamp) else None,
        size_bytes=partition_size(topic, part, sizes),
        note=as_is(str(refused) if refused else ""),
    )


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; `partitions` are those of one page."""

    name: str
    topic_id: str
    is_internal: bool
    health: Health
    replication_factor: int
    partitions: list[PartitionView]
    paging: Paging
    records: int | None
    """Offsets between start and end of the partitions shown, those of markers and removed records too."""
    size_bytes: int | None
    records_per_second: float | None
    rates: list[Rate]
    unanswered: list[Unanswered]
    """The brokers whose sizes are missing."""


def topic_view(
    topic: TopicDescription,
    partitions: list[PartitionView],
    paging: Paging,
    size_bytes: int | None,
    rates: list[Rate],
    silent: list[Unanswered],
) -> TopicView:
    """Return a topic with a page of its partitions."""
    spans = [
        part.end_offset - part.start_offset
        for part in partitions
        if part.start_offset is not None and part.end_offset is not None
    ]
    return TopicView(
        name=topic.name,
        topic_id=uuid_text(TopicId(topic.topic_id)) if any(topic.topic_id) else "",
        is_internal=topic.is_internal,
        health=health_of(topic),
        replication_factor=max((len(p.replicas) for p in topic.partitions), default=0),
        partitions=partitions,
        paging=paging,
        records=sum(spans) if len(spans) == paging.total else None,
        size_bytes=size_bytes,
        records_per_second=rates[-1].per_second if rates else None,
        rates=rates,
        unanswered=silent,
    )
