"""Decisions of an exactly-once sink: the record, the names that belong to a sink, and its codec. Pure.

A sink has one transactional id for its driver, to write decisions, one for each transaction of a task,
and a topic of one partition in which the last committed record is the sink's state:

    driver's id      <sink>-driver
    task's id        <sink>-<16 hex digits of one worker process>-<number>
    decisions        topic <sink>-decisions

A batch is of a *write* (the id of a streaming query, or the name of one `df.write`) and has a number in it. Its parts
are the transactions of its tasks. A part is decided when it stands in a record, OPEN until its EndTxn was answered.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kavka.core.transactional_producer.state import PreparedTxnState

_FORM = 1
BARRIER_KEY = b"barrier"
BARRIER = b'{"form":2}'
"""Not a decision: see `decision_log`. A release that knows no barriers refuses it, as of a later one."""


class CorruptDecision(Exception):
    """A record of the decision topic is not one of ours."""


class Outcome(Enum):
    """The outcome of a decided part."""

    OPEN = "open"
    """To be committed, perhaps committed already."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Aborted in spite of the decision: by its timeout, or by an operator."""


@dataclass(frozen=True, slots=True)
class Part:
    """The transaction of a task."""

    task: int
    """The number of the task in its batch; Spark's partition id."""
    transactional_id: str
    state: PreparedTxnState
    rows: int
    digest: str
    """Of the rows in their order, to recognise them when the task is run again; empty for one without a timeout."""
    outcome: Outcome = Outcome.OPEN


@dataclass(frozen=True, slots=True)
class Batch:
    """Names a batch."""

    write: str
    number: int

    def __str__(self) -> str:
        """Return words for a message."""
        return f"batch {self.number} of {self.write}"


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that is to be seen whole. Invariant: parts are sorted by task, each task once."""

    batch: Batch
    tasks: int
    """Number of tasks of the batch, including those without rows."""
    parts: tuple[Part, ...]
    """Empty once all are committed."""

    @property
    def is_settled(self) -> bool:
        """Return whether no part is open."""
        return all(part.outcome is not Outcome.OPEN for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Return whether every part is committed."""
        return all(part.outcome is Outcome.COMMITTED for part in self.parts)

    def part_of(self, task: int) -> Part | None:
        """Return a task's part; None for a task without rows."""
        return next((part for part in self.parts if part.task == task), None)


@dataclass(frozen=True, slots=True)
class SinkNames:
    """The names that belong to a sink. No sink's ids are those of another, even if one name begins with the other."""

    sink: str

    @property
    def driver(self) -> str:
        """The driver's transactional id."""
        return f"{self.sink}-driver"

    @property
    def topic(self) -> str:
        """Return the name of the decision topic."""
        return f"{self.sink}-decisions"

    def task(self, process: str, number: int) -> str:
        """Return a task's transactional id; `process` is 16 hex digits of the worker's own."""
        return f"{self.sink}-{process}-{number}"

    def is_task(self, transactional_id: str) -> bool:
        """Return whether an id is one of this sink's tasks."""
        pattern = re.escape(self.sink) + r"-[0-9a-f]{16}-[0-9]+"
        return re.fullmatch(pattern, transactional_id) is not None


def encode(decision: Decision) -> bytes:
    """Return the record's value; parts of a fully committed batch are left out, because they are not needed."""
    parts = () if decision.is_whole else decision.parts
    value = {
        "form": _FORM,
        "write": decision.batch.write,
        "batch": decision.batch.number,
        "tasks": decision.tasks,
        "parts": [_fields(part) for part in parts],
    }
    return json.dumps(value, separators=(",", ":")).encode()


def _fields(part: Part) -> list[int | str]:
    name, state = part.transactional_id, str(part.state)
    return [part.task, name, state, part.rows, part.digest, part.outcome.value]


def decode(value: bytes) -> Decision:
    """Read what `encode` gave. Raise CorruptDecision."""
    try:
        given = json.loads(value)
        if given["form"] != _FORM:
            raise CorruptDecision(f"a decision of form {given['form']} is of a later release")
        batch = Batch(_text(given["write"]), _count(given["batch"]))
        parts = tuple(_part(one) for one in given["parts"])
        return Decision(batch, _count(given["tasks"]), parts)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDecision(f"a record is not a decision: {error!r}") from None


def _part(given: list[Any]) -> Part:
    task, transactional_id, state, rows, digest, outcome = given
    return Part(
        _count(task),
        _text(transactional_id),
        PreparedTxnState.parse(_text(state)),
        _count(rows),
        _text(digest),
        Outcome(outcome),
    )


def _count(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r} is not a number of something")
    return given


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is not a text")
    return given
