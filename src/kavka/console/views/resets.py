"""The plan of new offsets of a group, as it is shown before it is carried out."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.client.admin.offset_resets import Adjustment, PlannedReset
from kavka.console.sentences import NOTHING, Sentence, say

SCENARIOS = {
    "earliest": say("to the first record"),
    "latest": say("to the end"),
    "time": say("to a time"),
    "offset": say("to an offset"),
    "shift": say("by a number of records"),
}


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
    note: Sentence


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


def planned_offset(plan: PlannedReset, current: int | None) -> PlannedOffset:
    """Return the row of a plan, with the reason where its offset is not the one that was asked for."""
    match plan.adjustment:
        case Adjustment.NONE:
            note = NOTHING
        case Adjustment.NO_LATER_RECORD:
            note = say("no record is that young: the end")
        case Adjustment.BELOW_START:
            note = say("{wanted} is before the first record: the first record", wanted=plan.wanted)
        case Adjustment.ABOVE_END:
            note = say("{wanted} is after the end: the end", wanted=plan.wanted)
    topic, partition = plan.topic_partition
    change = None if current is None else plan.new - current
    return PlannedOffset(
        topic, partition, current, plan.new, change, plan.start_offset, plan.end_offset, note
    )


def totals(rows: list[PlannedOffset]) -> tuple[int, int]:
    """Return how many records a plan reads again, and how many it leaves out."""
    changes = [row.change for row in rows if row.change is not None]
    return -sum(c for c in changes if c < 0), sum(c for c in changes if c > 0)
