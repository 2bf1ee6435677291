"""New offsets of a group: from a scenario to a plan, which is shown before it is carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kavka.ids import TopicPartition

SCENARIOS = {
    "earliest": "to the first record",
    "latest": "to the end",
    "time": "to a time",
    "offset": "to an offset",
    "shift": "by a number of records",
}

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """A partition's offset before and after; `change` is negative where records are read again."""

    topic: str
    partition: int
    current: int | None
    new: int
    change: int | None
    start_offset: int
    end_offset: int
    note: str


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The plan of a reset."""

    group_id: str
    state: str
    topics: list[str]
    """The topics of which the group has offsets."""
    rows: list[PlannedOffset]
    again: int
    """Records that would be read again."""
    skipped: int
    """Records that would not be read."""
    can_be_reset: bool
    is_planned: bool
    """True if a scenario was chosen."""


def plan_offset(
    key: TopicPartition, wanted: int | None, current: int | None, start: int, end: int
) -> PlannedOffset:
    """Return a partition's plan: the wanted offset, moved into what the log has; None wants the end."""
    target = end if wanted is None else wanted
    new = min(max(target, start), end)
    note = ""
    if wanted is None:
        note = "no record is that young: the end"
    elif wanted < start:
        note = f"{wanted} is before the first record: the first record"
    elif wanted > end:
        note = f"{wanted} is after the end: the end"
    change = None if current is None else new - current
    return PlannedOffset(key.topic, key.partition, current, new, change, start, end, note)


def wanted_offset(scenario: str, current: int | None, value: int | None, end: int) -> int | None:
    """Return the offset that a scenario without lookups wants: `offset` or `shift` by `value`.

    Raise ValueError, with a sentence, where the value or the offset to shift is missing.
    """
    if value is None:
        raise ValueError("Give a number: the offset, or by how many records.")
    if scenario == "offset":
        return value
    if current is None:
        raise ValueError(
            "A partition has no committed offset that could be shifted: choose another scenario."
        )
    return min(current, end) + value


def totals(rows: list[PlannedOffset]) -> tuple[int, int]:
    """Return how many records a plan reads again, and how many it leaves out."""
    changes = [row.change for row in rows if row.change is not None]
    return -sum(c for c in changes if c < 0), sum(c for c in changes if c > 0)
