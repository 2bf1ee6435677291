"""Partitions as programs name them, checked before a client uses them. Pure.

A wrong one, `TopicPartition("orders", "0")` or a text in the place of a list, would else be found by background tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, TypeVar

from kavka.ids import TopicPartition

V = TypeVar("V")


def partition_of(given: TopicPartition) -> TopicPartition:
    """Return a partition, also of a plain pair. Raise TypeError for what is none."""
    is_pair = isinstance(given, tuple | list) and len(given) == 2
    if not is_pair or not isinstance(given[0], str) or not hasattr(given[1], "__index__"):
        raise TypeError(
            f"a partition is TopicPartition(topic: str, partition: int), not {given!r:.80}"
        )
    return TopicPartition(*given)


def partitions_of(given: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions. Raise TypeError for one in the place of a list, and for what is none."""
    wrong: Any = given
    if isinstance(wrong, TopicPartition | str | bytes) or not isinstance(wrong, Iterable):
        raise TypeError(f"partitions is a list of TopicPartition, not {given!r:.80}")
    return [partition_of(one) for one in given]


def by_partition(given: Mapping[TopicPartition, V]) -> dict[TopicPartition, V]:
    """Return a dictionary whose keys are partitions. Raise TypeError for a list, and for keys that are none."""
    if not isinstance(given, Mapping):
        raise TypeError(f"give a dictionary by TopicPartition, not {given!r:.80}")
    return {partition_of(one): value for one, value in given.items()}


def offsets_by_partition(given: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return offsets of next records. Raise TypeError for what is no partition or no number, ValueError below 0."""
    offsets = by_partition(given)
    for topic_partition, given_offset in offsets.items():
        offsets[topic_partition] = offset = offset_of(topic_partition, given_offset)
        if offset < 0:
            raise ValueError(f"the offset of {topic_partition} is negative: {offset}")
    return offsets


def offset_of(topic_partition: TopicPartition, given: int) -> int:
    """Return an offset, also of a number of numpy. Raise TypeError for what is no int, ValueError beyond 63 bits."""
    if not hasattr(given, "__index__"):
        raise TypeError(f"the offset of {topic_partition} is {type(given).__name__}, not int")
    offset = index(given)
    if offset >= 1 << 63:
        raise ValueError(f"the offset of {topic_partition} is beyond 63 bits: {offset}")
    return offset
