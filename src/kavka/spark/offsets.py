"""Offsets of a query: their JSON, how much of what is new a trigger takes, and how ranges become tasks. Pure.

The JSON is that of Spark's Kafka source, `{"topic": {"0": 12}}`: the offset after the last one that was read. Beside a
topic stands its id, `{"topic@<id>": {}}`, so that a topic that was deleted and created again is recognised. That name
is no topic's, and an entry without partitions means nothing to Spark's connector and to checkpoints without ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from kavka.core.topic_partitions import nest_by_topic
from kavka.ids import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]
TopicIds = dict[str, str]
"""The id of each topic that has one, as Kafka prints it."""

_ID_MARK = "@"
"""Stands between a topic and its id. Invariant: no name of a topic has it."""


class OffsetRange(NamedTuple):
    """Records of one partition from `start` up to and without `end`."""

    topic: str
    partition: int
    start: int
    end: int


def to_json(
    offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None
) -> OffsetJson:
    """Return offsets as Spark stores them, in a fixed order, because Spark compares them as text."""
    nested = nest_by_topic(offsets.items())
    topic_ids = ids or {}
    marked = [f"{topic}{_ID_MARK}{topic_ids[topic]}" for topic in nested if topic in topic_ids]
    return nested | {name: {} for name in marked}


def ids_from_json(nested: Mapping[str, Mapping[str, int]]) -> TopicIds:
    """Return the ids of topics that `to_json` put beside offsets; none are in older checkpoints."""
    marked = (name.partition(_ID_MARK) for name in nested if _ID_MARK in name)
    return {topic: topic_id for topic, _, topic_id in marked}


def recreated_topics(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the topics that have another id now than before."""
    return {topic for topic in before if now.get(topic, before[topic]) != before[topic]}


def without_topics(offsets: Mapping[TopicPartition, int], topics: set[str]) -> Offsets:
    """Return the offsets of other topics."""
    return {one: offset for one, offset in offsets.items() if one.topic not in topics}


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read what `to_json` gave, or Spark's own connector."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def limit_offsets(start: Offsets, end: Offsets, max_offsets: int) -> Offsets:
    """Return how far a trigger goes that may take `max_offsets` records: each partition in proportion to what is new.

    A partition that is missing in `start` must not be in `end`. At least one record of each partition that has any is
    taken, so that small partitions do not starve beside large ones. One that ends before it starts, because its topic
    was created again, is taken to its end, so that the loss is seen and reported.
    """
    sizes = {partition: max(end[partition] - start[partition], 0) for partition in end}
    total = sum(sizes.values())
    if total <= max_offsets:
        return end
    taken = {}
    for partition, size in sizes.items():
        share = max_offsets * size / total
        offset = start[partition] + (math.ceil(share) if share < 1 else math.floor(share))
        taken[partition] = min(offset, end[partition])
    return taken


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut ranges into the tasks of Spark's connector (`KafkaOffsetRangeCalculator`); without a wish, a range is a task.

    None is empty. About `min_partitions` are made: a range that would be one task stays whole, and the others share
    what is left in proportion to their sizes. With `max_records`, ranges are first cut into pieces of at most so many
    offsets; a partition of which one piece then stays whole keeps all its pieces, as there.
    """
    nonempty = sorted(one for one in ranges if one.end > one.start)
    if max_records is not None:
        nonempty = [
            part
            for one in nonempty
            for part in _cut(one, math.ceil((one.end - one.start) / max_records))
        ]
    if min_partitions is None or len(nonempty) >= min_partitions:
        return nonempty
    total = sum(map(_size, nonempty))
    whole = [one for one in nonempty if _pieces(_size(one), total, min_partitions) == 1]
    kept = {(one.topic, one.partition) for one in whole}
    shared = total - sum(map(_size, whole))
    pieces = max(min_partitions - len(whole), 1)
    return [
        part for one in nonempty
        for part in _cut(
            one, 1 if (one.topic, one.partition) in kept else _pieces(_size(one), shared, pieces)
        )
    ]  # fmt: skip


def _size(offset_range: OffsetRange) -> int:
    return offset_range.end - offset_range.start


def _pieces(size: int, total: int, pieces: int) -> int:
    """Return a range's share of the wanted tasks, rounded half up as Java rounds."""
    share = size / total * pieces
    rounded_up = share - math.floor(share) >= 0.5
    return max(math.floor(share) + rounded_up, 1)


def _cut(offset_range: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Cut a range into pieces with lengths that differ by one at most, the later ones the longer."""
    length = _size(offset_range)
    pieces = min(pieces, length)
    short, longer = divmod(length, pieces)
    bounds = [
        offset_range.start + n * short + max(n - pieces + longer, 0) for n in range(pieces + 1)
    ]
    return [
        OffsetRange(offset_range.topic, offset_range.partition, start, end)
        for start, end in pairwise(bounds)
    ]
