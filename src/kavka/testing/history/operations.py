"""Operations of processes, the elements of a history: each an invocation and a completion.

A *process* is one producer or one consumer, or one of each that belong together. Its operations are invoked one
after another; sends may overlap (a producer pipelines them), everything else is completed before the next begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kavka.ids import TopicPartition


class Type(StrEnum):
    """The type of an event: invocation, or kind of completion."""

    INVOKE = "invoke"
    """The operation begins."""
    OK = "ok"
    """The operation was applied."""
    FAIL = "fail"
    """The operation was surely not applied, and never will be."""
    INFO = "info"
    """The outcome is unknown: it may have happened, or may happen later."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. Its value identifies it: each value is sent once on purpose."""

    partition: TopicPartition
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Send:
    """Write one value. `offset` is known when it was acknowledged; None where the broker did not return it."""

    partition: TopicPartition
    value: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """Read on. `records` are in the order in which the consumer handed them out."""

    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign:
    """Read exactly these partitions from now on; those that were read before continue where they were."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribe to topics with a group; reading restarts at committed offsets."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The group revoked and assigned partitions; reading both restarts at committed offsets."""

    revoked: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Seek:
    """Read on at an offset; None is somewhere (the beginning, the end, a time)."""

    partition: TopicPartition
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction: the sends and polls of this process belong to it until it is committed or aborted."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the transaction. FAIL means that it was aborted."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the transaction."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Read all of a partition, from its first offset `start` up to and without its end `end`.

    Scans that begin after the last send show what is left in the end.
    """

    partition: TopicPartition
    start: int = 0
    end: int = 0
    records: tuple[Record, ...] = ()


Action = Send | Poll | Assign | Subscribe | Rebalance | Seek | Begin | Commit | Abort | Scan


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a history. `number` ties a completion to its invocation; an operation may have only a completion."""

    number: int
    process: str
    type: Type
    time_ns: int
    action: Action
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An invocation and its completion. Without a completion the outcome is INFO.

    `invoked` and `completed` count the events of the history: they order operations of all processes where times
    are equal.
    """

    number: int
    process: str
    outcome: Type
    action: Action
    """The completion's, else the invocation's."""
    invoked: int
    invoked_ns: int
    completed: int | None
    completed_ns: int | None
    error: str | None = None

    def __str__(self) -> str:
        """Name it in an explanation: process, operation, time."""
        when = f"{self.invoked_ns / 1e9:.3f}"
        if self.completed_ns is not None and self.completed_ns != self.invoked_ns:
            when += f" to {self.completed_ns / 1e9:.3f}"
        kind = type(self.action).__name__.lower()
        return f"{self.process}'s {kind} (operation {self.number}, {when} s, {self.outcome})"


class MalformedHistory(ValueError):
    """The recorded events cannot be a history; the text names the operation and the rule."""


def pair(events: list[Event]) -> list[Operation]:
    """Return the operations of events, in the order of their invocations. Raise MalformedHistory."""
    opened: dict[int, tuple[int, Event]] = {}
    operations: dict[int, Operation] = {}
    for index, event in enumerate(events):
        number = event.number
        if number in operations or (event.type is Type.INVOKE and number in opened):
            raise MalformedHistory(f"event {index}: operation {number} has this event twice")
        if event.type is Type.INVOKE:
            opened[number] = index, event
            continue
        invoked, begun = opened.pop(number, (index, event))
        if begun.process != event.process or type(begun.action) is not type(event.action):
            raise MalformedHistory(f"event {index}: operation {number} was invoked as another one")
        operations[number] = Operation(
            number, event.process, event.type, event.action, invoked, begun.time_ns,
            index, event.time_ns, event.error,
        )  # fmt: skip
    for number, (index, event) in opened.items():
        operations[number] = Operation(
            number, event.process, Type.INFO, event.action, index, event.time_ns, None, None
        )
    return sorted(operations.values(), key=lambda operation: operation.invoked)
