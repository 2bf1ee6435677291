"""The state of sinks that a table keeps, and the decision about a batch that follows from it. Pure.

Each sink has a property of the table, `kavka.sink.<sinkId>`, which changes in the same commit as the rows of a batch:
so a batch is in the table if, and only if, the property says so. The snapshot of a batch says the same in its summary
(`kavka.sink-id`, `kavka.write-id`, `kavka.batch-id`, `kavka.offsets`), but snapshots expire, and the property stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kavka.lake.errors import LakeError
from kavka.lake.offset_ranges import Ends, ends_from_json, ends_to_json

_PREFIX = "kavka.sink."
_FORM = 1
_PAST = 100
"""Number of earlier writes that are remembered."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """Names a batch: the id of a streaming query, or the name of one `df.write`, and a number in it."""

    write: str
    number: int

    def __str__(self) -> str:
        """Return words for a message."""
        return f"batch {self.number} of {self.write}"


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of a sink in one table."""

    batch: BatchId
    """The last batch that is in the table."""
    ends: Ends
    """One past the last offset that was loaded, for each topic partition."""
    past: tuple[str, ...] = ()
    """The writes before that of `batch`, the last one first."""

    def after(self, batch: BatchId, ends: Ends) -> SinkState:
        """Return the state when a batch is committed."""
        past = self.past
        if batch.write != self.batch.write:
            past = (self.batch.write, *(one for one in past if one != batch.write))[:_PAST]
        merged = dict(self.ends)
        for at, end in ends.items():
            merged[at] = max(end, merged.get(at, 0))
        return SinkState(batch, merged, past)


class Verdict(Enum):
    """The decision about a batch."""

    WRITE = "write"
    ALREADY_THERE = "already there"


def judge(
    state: SinkState | None, batch: BatchId, accepts_other_writes: bool, is_stream: bool
) -> Verdict:
    """Return whether a batch is to be written. Raise LakeError when it is of another run that must not go on."""
    if state is None:
        return Verdict.WRITE
    if state.batch.write == batch.write:
        if state.batch.number == batch.number:
            return Verdict.ALREADY_THERE
        if state.batch.number < batch.number:
            return Verdict.WRITE
        raise LakeError(
            f"The table has {state.batch} already, and this is number {batch.number}: the checkpoint is an older one, "
            "or another run of the query has gone on. Continue with the newest checkpoint."
        )
    if batch.write in state.past:
        if not is_stream:
            return Verdict.ALREADY_THERE
        raise LakeError(
            f"The query {batch.write} was replaced by {state.batch.write}, which has loaded the table since: stop one "
            "of the two, or give each a sinkId of its own."
        )
    if accepts_other_writes:
        return Verdict.WRITE
    raise LakeError(
        f"The table was loaded by the query {state.batch.write}, and this is {batch.write}: the checkpoint is a new "
        "one, and would load again what is there. Use the old checkpoint, or start after what is loaded (`kavka lake "
        "status` prints startingOffsets) with the option onNewCheckpoint reset."
    )


def property_of(sink: str) -> str:
    """Return the name of the table's property."""
    return _PREFIX + sink


def sinks_of(properties: Mapping[str, str]) -> dict[str, SinkState]:
    """Return the state of each sink by its id. Raise LakeError."""
    return {
        name.removeprefix(_PREFIX): decode(value)
        for name, value in sorted(properties.items())
        if name.startswith(_PREFIX)
    }


def state_of(properties: Mapping[str, str], sink: str) -> SinkState | None:
    """Return the state of a sink, None when it has loaded nothing. Raise LakeError."""
    value = properties.get(property_of(sink))
    return None if value is None else decode(value)


def encode(state: SinkState) -> str:
    """Return the property's value."""
    value = {
        "form": _FORM,
        "write": state.batch.write,
        "batch": state.batch.number,
        "ends": ends_to_json(state.ends),
        "past": list(state.past),
    }
    return json.dumps(value, separators=(",", ":"))


def decode(text: str) -> SinkState:
    """Read what `encode` gave. Raise LakeError."""
    try:
        given = json.loads(text)
        if given["form"] != _FORM:
            raise LakeError(f"The state of a sink, of form {given['form']}, is of a later release.")
        batch = BatchId(str(given["write"]), int(given["batch"]))
        return SinkState(batch, ends_from_json(given["ends"]), tuple(map(str, given["past"])))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise LakeError(f"A property {_PREFIX}... is not the state of a sink: {error!r}.") from None
