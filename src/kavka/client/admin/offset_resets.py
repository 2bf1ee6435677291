"""New committed offsets of a group, planned before they are set: for `kavka consumer-groups` and the console.

EARLIEST, LATEST   the first offset of the log, its end
TIME               the first record that is not older; the end where there is none
OFFSET, SHIFT      that offset, the committed one moved by a number; both moved into what the log has
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from kavka.client.admin.records import OffsetSpec
from kavka.client.list_offsets import OffsetAndTimestamp, failure_of
from kavka.ids import TopicPartition
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.client.admin.admin import Admin

Offsets = Mapping[TopicPartition, int]


class ResetTo(Enum):
    """The place to which the offsets of a group are set."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"


class Adjustment(Enum):
    """The reason why a planned offset is not the one that was asked for."""

    NONE = "none"
    NO_LATER_RECORD = "no later record"
    """No record is as young as the time: it is the end."""
    BELOW_START = "below start"
    ABOVE_END = "above end"


class NoCommittedOffset(ValueError):
    """A partition has no committed offset that could be shifted."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        """Name the partition."""
        super().__init__(f"{topic_partition} has no committed offset")
        self.topic_partition = topic_partition


@frozen
class PlannedReset:
    """The planned offset of one partition."""

    topic_partition: TopicPartition
    wanted: int
    """The offset that was asked for; -1 with NO_LATER_RECORD."""
    new: int
    start_offset: int
    end_offset: int
    adjustment: Adjustment = Adjustment.NONE


async def plan_reset(
    admin: Admin,
    partitions: Iterable[TopicPartition],
    to: ResetTo,
    value: int = 0,
    *,
    committed: Offsets = MappingProxyType({}),
    timeout_ms: int | None = None,
) -> list[PlannedReset]:
    """Return a plan for each partition, in their order. Nothing is set.

    `value` is a time in milliseconds since 1970, an offset, or a number of records, negative for back. `committed` are
    the offsets of the group, for SHIFT. Raise NoCommittedOffset, KafkaError, the first of a partition, and TimeoutError
    when a leader does not answer.
    """
    chosen = list(partitions)
    if to is ResetTo.SHIFT:
        for topic_partition in chosen:
            if topic_partition not in committed:
                raise NoCommittedOffset(topic_partition)
        wanted: Offsets = {key: committed[key] + value for key in chosen}
        return await plan_offsets(admin, wanted, timeout_ms)
    if to is ResetTo.OFFSET:
        return await plan_offsets(admin, dict.fromkeys(chosen, value), timeout_ms)
    starts, ends = await _bounds(admin, chosen, timeout_ms)
    match to:
        case ResetTo.EARLIEST:
            wanted = starts
        case ResetTo.LATEST:
            wanted = ends
        case ResetTo.TIME:
            wanted = await _listed(admin, chosen, value, timeout_ms)
    plans = []
    for key in chosen:
        new, adjustment = wanted[key], Adjustment.NONE
        if new < 0:
            new, adjustment = ends[key], Adjustment.NO_LATER_RECORD
        plans.append(PlannedReset(key, wanted[key], new, starts[key], ends[key], adjustment))
    return plans


async def plan_offsets(
    admin: Admin, wanted: Offsets, timeout_ms: int | None = None
) -> list[PlannedReset]:
    """Return a plan for each partition with an offset of its own, moved into what the log has.

    Raise KafkaError, and TimeoutError when a leader does not answer.
    """
    starts, ends = await _bounds(admin, list(wanted), timeout_ms)
    return [moved_into_log(key, offset, starts[key], ends[key]) for key, offset in wanted.items()]


def moved_into_log(
    topic_partition: TopicPartition, wanted: int, start_offset: int, end_offset: int
) -> PlannedReset:
    """Return the wanted offset, or the nearest end of the log where it lies outside."""
    new = min(max(wanted, start_offset), end_offset)
    adjustment = Adjustment.NONE
    if wanted != new:
        adjustment = Adjustment.BELOW_START if wanted < new else Adjustment.ABOVE_END
    return PlannedReset(topic_partition, wanted, new, start_offset, end_offset, adjustment)


async def _bounds(
    admin: Admin, partitions: list[TopicPartition], timeout_ms: int | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    starts, ends = await asyncio.gather(
        _listed(admin, partitions, OffsetSpec.EARLIEST, timeout_ms),
        _listed(admin, partitions, OffsetSpec.LATEST, timeout_ms),
    )
    return starts, ends


async def _listed(
    admin: Admin, partitions: list[TopicPartition], spec: int, timeout_ms: int | None
) -> dict[TopicPartition, int]:
    found = {}
    wanted = dict.fromkeys(partitions, spec)
    listed = await admin.list_offsets(wanted, timeout_ms=timeout_ms) if wanted else {}
    for topic_partition, result in listed.items():
        if not isinstance(result, OffsetAndTimestamp):
            raise failure_of(result)
        found[topic_partition] = result.offset
    return found
