"""Offsets of a query: their JSON, how much of what is new a trigger takes, and how ranges become tasks. Pure.

The JSON is that of Spark's Kafka source, `{"topic": {"0": 12}}`: the offset after the last one that was read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from kavka.ids import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]


class OffsetRange(NamedTuple):
    """Records of one partition from `start` up to and without `end`."""

    topic: str
    partition: int
    start: int
    end: int


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Return offsets as Spark stores them, in a fixed order, because Spark compares them as text."""
    nested: OffsetJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read what `to_json` gave, or Spark's own connector."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def limited(start: Offsets, end: Offsets, max_offsets: int) -> Offsets:
    """Return how far a trigger goes that may take `max_offsets` records: each partition in proportion to what is new.

    A partition that is missing in `start` must not be in `end`. At least one record of each partition that has any is
    taken, so that small partitions do not starve beside large ones. One that ends before it starts, because its topic
    was made anew, is taken to its end, so that the loss is seen and reported.
    """
    sizes = {partition: max(end[partition] - start[partition], 0) for partition in end}
    total = sum(sizes.values())
    if total <= max_offsets:
        return end
    taken = {}
    for partition, size in sizes.items():
        share = max_offsets * size / total
        wanted = start[partition] + (math.ceil(share) if share < 1 else math.floor(share))
        taken[partition] = min(wanted, end[partition])
    return taken


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut ranges into the tasks of Spark's connector (`KafkaOffsetRangeCalculator`); without a wish, a range is a task.

    None is empty. About `min_partitions` are made: a range that would be one task stays whole, and the others share
    what is left in proportion to their sizes. With `max_records`, ranges are first cut into pieces of at most so many
    offsets; a partition of which one piece then stays whole keeps all its pieces, as there.
    """
    left = sorted(one for one in ranges if one.end > one.start)
    if max_records is not None:
        left = [
            part
            for one in left
            for part in _cut(one, math.ceil((one.end - one.start) / max_records))
        ]
    if min_partitions is None or len(left) >= min_partitions:
        return left
    total = sum(map(_size, left))
    whole = [one for one in left if _pieces(_size(one), total, min_partitions) == 1]
    kept = {(one.topic, one.partition) for one in whole}
    shared = total - sum(map(_size, whole))
    wanted = max(min_partitions - len(whole), 1)
    return [
        part for one in left
        for part in _cut(
            one, 1 if (one.topic, one.partition) in kept else _pieces(_size(one), shared, wanted)
        )
    ]  # fmt: skip


def _size(one: OffsetRange) -> int:
    return one.end - one.start


def _pieces(size: int, total: int, wanted: int) -> int:
    """Return a range's share of the wanted tasks, rounded half up as Java rounds."""
    share = size / total * wanted
    rounded_up = share - math.floor(share) >= 0.5
    return max(math.floor(share) + rounded_up, 1)


def _cut(one: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Cut a range into pieces whose lengths differ by one at most, the later ones the longer."""
    length = _size(one)
    pieces = min(pieces, length)
    short, longer = divmod(length, pieces)
    bounds = [one.start + n * short + max(n - pieces + longer, 0) for n in range(pieces + 1)]
    return [OffsetRange(one.topic, one.partition, start, end) for start, end in pairwise(bounds)]
